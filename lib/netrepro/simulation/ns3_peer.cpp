// An experiment in ns-3, as netrepro.simulation.ns3 writes it to standard input, one line a thing (see read() below).
// Prints "hops <packet-hops> <CPU seconds of the run>", "flow <number> <completion, s; -1: never> <bytes received>" and
// "queue <time, s> <packets>".
#include <ns3/applications-module.h>
#include <ns3/core-module.h>
#include <ns3/internet-module.h>
#include <ns3/network-module.h>
#include <ns3/point-to-point-module.h>
#include <ns3/traffic-control-module.h>

#include <ctime>
#include <iostream>
#include <map>

using namespace ns3;

namespace {
struct Direction {  // of a cable
  double rate_bps = 0, loss = 0;
  std::uint32_t queue_packets = 0, mark_from_packets = 0;
};
struct Port {
  Ptr<PointToPointNetDevice> device;
  Ptr<QueueDisc> marking;
  std::uint32_t interface = 0;
  Ipv4Address address;
};
struct FlowState {
  std::uint64_t size_bytes = 0, received_bytes = 0;
  double completion_s = -1;
};

NodeContainer nodes;
std::map<std::pair<int, int>, Port> ports;  // by nodes from, to
std::vector<FlowState> flows;
std::uint64_t hops = 0;
std::uint32_t subnet = 0;
constexpr std::uint16_t first_port = 1000;

void count_hop(Ptr<const Packet>) { ++hops; }

void count_bytes(std::size_t number, Ptr<const Packet> packet, const Address&) {
  FlowState& flow = flows[number];
  flow.received_bytes += packet->GetSize();
  if (flow.completion_s < 0 && flow.size_bytes > 0 && flow.received_bytes >= flow.size_bytes)
    flow.completion_s = Simulator::Now().GetSeconds();
}

void add_port(int from, int to, Ptr<NetDevice> net_device, Ipv4Address address, const Direction& direction) {
  Port& port = ports[{from, to}];
  port.device = DynamicCast<PointToPointNetDevice>(net_device);
  port.device->SetDataRate(DataRate(static_cast<std::uint64_t>(direction.rate_bps)));
  port.device->TraceConnectWithoutContext("PhyTxEnd", MakeCallback(&count_hop));
  port.interface = nodes.Get(from)->GetObject<Ipv4>()->GetInterfaceForDevice(net_device);
  port.address = address;
  TrafficControlHelper().Uninstall(net_device);
  std::uint32_t in_device = direction.queue_packets;
  if (direction.mark_from_packets > 0) {
    in_device = 1;  // all others wait in the discipline, which marks by what waits at this moment
    TrafficControlHelper helper;
    const double threshold = direction.mark_from_packets;
    helper.SetRootQueueDisc("ns3::RedQueueDisc", "MinTh", DoubleValue(threshold), "MaxTh", DoubleValue(threshold), "QW",
                            DoubleValue(1), "UseHardDrop", BooleanValue(false), "UseEcn", BooleanValue(true), "MaxSize",
                            QueueSizeValue(QueueSize(QueueSizeUnit::PACKETS, direction.queue_packets)));
    port.marking = helper.Install(net_device).Get(0);
  }
  port.device->GetQueue()->SetMaxSize(QueueSize(QueueSizeUnit::PACKETS, in_device));
}

void add_cable(int a, int b, double delay_s, const Direction& there, const Direction& back) {
  PointToPointHelper cable;
  cable.SetChannelAttribute("Delay", TimeValue(Seconds(delay_s)));
  NetDeviceContainer devices = cable.Install(nodes.Get(a), nodes.Get(b));
  Ipv4AddressHelper addresses(Ipv4Address(0x0a000000 + (subnet++ << 8)), "255.255.255.0");
  Ipv4InterfaceContainer interfaces = addresses.Assign(devices);
  add_port(a, b, devices.Get(0), interfaces.GetAddress(0), there);
  add_port(b, a, devices.Get(1), interfaces.GetAddress(1), back);
  const Direction* directions[] = {&back, &there};  // what a device receives came the other way
  for (int i = 0; i < 2; ++i) {
    if (directions[i]->loss <= 0) continue;
    Ptr<RateErrorModel> loss = CreateObject<RateErrorModel>();
    loss->SetUnit(RateErrorModel::ERROR_UNIT_PACKET);
    loss->SetRate(directions[i]->loss);
    DynamicCast<PointToPointNetDevice>(devices.Get(i))->SetReceiveErrorModel(loss);
  }
}

Ipv4Address address_of(int host) { return ports.lower_bound({host, 0})->second.address; }

void add_flow(int from, int to, double start_s, double stop_s, std::uint64_t size_bytes) {
  const std::size_t number = flows.size();
  flows.push_back({size_bytes, 0, -1});
  const auto port = static_cast<std::uint16_t>(first_port + number);
  BulkSendHelper source("ns3::TcpSocketFactory", InetSocketAddress(address_of(to), port));
  source.SetAttribute("MaxBytes", UintegerValue(size_bytes));
  ApplicationContainer sender = source.Install(nodes.Get(from));
  sender.Start(Seconds(start_s));
  sender.Stop(Seconds(stop_s));
  PacketSinkHelper sink("ns3::TcpSocketFactory", InetSocketAddress(Ipv4Address::GetAny(), port));
  sink.Install(nodes.Get(to)).Get(0)->TraceConnectWithoutContext("Rx", MakeBoundCallback(&count_bytes, number));
}

void sample(Port* port, double interval_s) {
  const std::uint32_t marking = port->marking ? port->marking->GetNPackets() : 0;
  std::cout << "queue " << Simulator::Now().GetSeconds() << " " << port->device->GetQueue()->GetNPackets() + marking
            << "\n";
  Simulator::Schedule(Seconds(interval_s), &sample, port, interval_s);
}

void set_tcp() {
  std::string control;
  std::uint32_t segment_bytes, initial_window, window_bytes;
  double min_rto_s, initial_rto_s, acknowledgement_delay_s;
  bool sack;
  std::cin >> control >> segment_bytes >> initial_window >> window_bytes >> min_rto_s >> initial_rto_s >>
      acknowledgement_delay_s >> sack;
  Config::SetDefault("ns3::TcpL4Protocol::SocketType", StringValue(control));
  Config::SetDefault("ns3::TcpSocket::SegmentSize", UintegerValue(segment_bytes));
  Config::SetDefault("ns3::TcpSocket::InitialCwnd", UintegerValue(initial_window));
  Config::SetDefault("ns3::TcpSocket::SndBufSize", UintegerValue(window_bytes));
  Config::SetDefault("ns3::TcpSocket::RcvBufSize", UintegerValue(window_bytes));
  Config::SetDefault("ns3::TcpSocket::ConnTimeout", TimeValue(Seconds(initial_rto_s)));
  Config::SetDefault("ns3::TcpSocketBase::MinRto", TimeValue(Seconds(min_rto_s)));
  Config::SetDefault("ns3::TcpSocketBase::Sack", BooleanValue(sack));
  Config::SetDefault("ns3::TcpSocket::DelAckCount", UintegerValue(acknowledgement_delay_s > 0 ? 2 : 1));
  if (acknowledgement_delay_s > 0)
    Config::SetDefault("ns3::TcpSocket::DelAckTimeout", TimeValue(Seconds(acknowledgement_delay_s)));
}

void read_cable() {
  int a, b;
  double delay_s;
  Direction directions[2];
  std::cin >> a >> b >> delay_s;
  for (Direction& direction : directions)
    std::cin >> direction.rate_bps >> direction.loss >> direction.queue_packets >> direction.mark_from_packets;
  add_cable(a, b, delay_s, directions[0], directions[1]);
}

void read_route() {
  int at, to, next;
  std::cin >> at >> to >> next;
  const Port &out = ports.at({at, next}), &in = ports.at({next, at});
  Ipv4StaticRoutingHelper()
      .GetStaticRouting(nodes.Get(at)->GetObject<Ipv4>())
      ->AddHostRouteTo(address_of(to), in.address, out.interface);
}

// tcp <settings>, nodes <count>, cable <...>, route <at> <to> <next>, flow <...>, queue <from> <to> <interval, s>.
void read() {
  for (std::string what; std::cin >> what;) {
    if (what == "tcp") {
      set_tcp();
    } else if (what == "nodes") {
      std::uint32_t count;
      std::cin >> count;
      nodes.Create(count);
      InternetStackHelper().Install(nodes);
    } else if (what == "cable") {
      read_cable();
    } else if (what == "route") {
      read_route();
    } else if (what == "flow") {
      int from, to;
      double start_s, stop_s;
      std::uint64_t size_bytes;
      std::cin >> from >> to >> start_s >> stop_s >> size_bytes;
      add_flow(from, to, start_s, stop_s, size_bytes);
    } else if (what == "queue") {
      int from, to;
      double interval_s;
      std::cin >> from >> to >> interval_s;
      Simulator::Schedule(Seconds(interval_s), &sample, &ports.at({from, to}), interval_s);
    } else {
      throw std::invalid_argument("unknown line: " + what);
    }
  }
}
}  // namespace

// Arguments: simulated seconds, seed.
int main(int, char** arguments) {
  const double end_s = std::stod(arguments[1]);
  RngSeedManager::SetSeed(static_cast<std::uint32_t>(std::stoul(arguments[2])));
  read();
  Simulator::Stop(Seconds(end_s));
  const std::clock_t started = std::clock();
  Simulator::Run();
  std::cout << "hops " << hops << " " << static_cast<double>(std::clock() - started) / CLOCKS_PER_SEC << "\n";
  std::cout.precision(12);
  for (std::size_t i = 0; i < flows.size(); ++i)
    std::cout << "flow " << i << " " << flows[i].completion_s << " " << flows[i].received_bytes << "\n";
  Simulator::Destroy();
}
