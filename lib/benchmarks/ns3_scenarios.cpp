// The benchmark's two scenarios in ns-3. Arguments: dumbbell|fat-tree, simulated seconds, sack 0|1.
// Prints packet-hops (transmissions that ended), CPU seconds of the run, and bytes received by applications.
#include <ns3/applications-module.h>
#include <ns3/core-module.h>
#include <ns3/internet-module.h>
#include <ns3/network-module.h>
#include <ns3/point-to-point-module.h>
#include <ns3/traffic-control-module.h>

#include <ctime>
#include <iostream>

using namespace ns3;

namespace {
std::uint64_t hops = 0;
std::uint32_t subnet = 0;
void count(Ptr<const Packet>) { ++hops; }

// A cable without queueing disciplines above its two devices, on a network of its own.
Ipv4InterfaceContainer connect(Ptr<Node> a, Ptr<Node> b, const std::string& rate, const std::string& delay,
                               int packets_a, int packets_b) {
  PointToPointHelper cable;
  cable.SetDeviceAttribute("DataRate", StringValue(rate));
  cable.SetChannelAttribute("Delay", StringValue(delay));
  NetDeviceContainer devices = cable.Install(a, b);
  const int packets[] = {packets_a, packets_b};
  for (int i = 0; i < 2; ++i) {
    Ptr<PointToPointNetDevice> device = DynamicCast<PointToPointNetDevice>(devices.Get(i));
    device->GetQueue()->SetMaxSize(QueueSize(QueueSizeUnit::PACKETS, packets[i]));
    device->TraceConnectWithoutContext("PhyTxEnd", MakeCallback(&count));
  }
  Ipv4AddressHelper addresses(Ipv4Address(0x0a000000 + (subnet++ << 8)), "255.255.255.0");
  Ipv4InterfaceContainer interfaces = addresses.Assign(devices);
  TrafficControlHelper().Uninstall(devices);
  return interfaces;
}

void flow(Ptr<Node> from, Ptr<Node> to, Ipv4Address address, double start, double end, ApplicationContainer& sinks) {
  BulkSendHelper source("ns3::TcpSocketFactory", InetSocketAddress(address, 9));
  ApplicationContainer application = source.Install(from);
  application.Start(Seconds(start));
  application.Stop(Seconds(end));
  sinks.Add(PacketSinkHelper("ns3::TcpSocketFactory", InetSocketAddress(Ipv4Address::GetAny(), 9)).Install(to));
}

void route(Ptr<Node> at, Ipv4Address to, Ipv4Address next, std::uint32_t interface) {
  Ipv4StaticRoutingHelper().GetStaticRouting(at->GetObject<Ipv4>())->AddHostRouteTo(to, next, interface);
}
}  // namespace

int main(int, char** arguments) {
  const std::string scenario = arguments[1];
  const double end = std::stod(arguments[2]);
  const bool tree = scenario == "fat-tree";
  Config::SetDefault("ns3::TcpL4Protocol::SocketType", StringValue("ns3::TcpNewReno"));
  Config::SetDefault("ns3::TcpSocket::SegmentSize", UintegerValue(1448));
  Config::SetDefault("ns3::TcpSocket::InitialCwnd", UintegerValue(10));
  Config::SetDefault("ns3::TcpSocket::DelAckCount", UintegerValue(1));
  Config::SetDefault("ns3::TcpSocketBase::Sack", BooleanValue(std::stoi(arguments[3])));
  Config::SetDefault("ns3::TcpSocketBase::MinRto", TimeValue(MilliSeconds(tree ? 10 : 200)));
  const std::uint32_t window = tree ? 1 << 18 : 1 << 22;
  Config::SetDefault("ns3::TcpSocket::SndBufSize", UintegerValue(window));
  Config::SetDefault("ns3::TcpSocket::RcvBufSize", UintegerValue(window));
  NodeContainer hosts(tree ? 16 : 20), switches(tree ? 20 : 2);
  InternetStackHelper stack;
  stack.Install(hosts);
  stack.Install(switches);
  ApplicationContainer sinks;
  if (!tree) {
    for (int i = 0; i < 20; ++i) connect(hosts.Get(i), switches.Get(i / 10), "1Gbps", "500us", 1000, 1000);
    connect(switches.Get(0), switches.Get(1), "100Mbps", "10ms", 100, 100);
    Ipv4GlobalRoutingHelper::PopulateRoutingTables();
    for (int i = 0; i < 10; ++i) {
      const Ipv4Address to = hosts.Get(10 + i)->GetObject<Ipv4>()->GetAddress(1, 0).GetLocal();
      flow(hosts.Get(i), hosts.Get(10 + i), to, i * 0.01, end, sinks);
    }
  } else {
    // Edge switches 0-7, aggregation 8-15, core 16-19; interface numbers follow the order of the cables.
    std::vector<Ipv4Address> address(16), edge_side(16);
    Ipv4Address up[8][2], down[8][2], core_up[8][2], core_down[4][4];
    for (int h = 0; h < 16; ++h) {
      const auto ends = connect(hosts.Get(h), switches.Get(h / 2), "1Gbps", "10us", 1000, 100);
      address[h] = ends.GetAddress(0), edge_side[h] = ends.GetAddress(1);
    }
    for (int e = 0; e < 8; ++e)
      for (int a = 0; a < 2; ++a) {
        const auto ends = connect(switches.Get(e), switches.Get(8 + e / 2 * 2 + a), "1Gbps", "10us", 100, 100);
        down[e][a] = ends.GetAddress(0), up[e][a] = ends.GetAddress(1);
      }
    for (int a = 0; a < 8; ++a)
      for (int c = 0; c < 2; ++c) {
        const auto ends = connect(switches.Get(8 + a), switches.Get(16 + a % 2 * 2 + c), "1Gbps", "10us", 100, 100);
        core_down[a % 2 * 2 + c][a / 2] = ends.GetAddress(0), core_up[a][c] = ends.GetAddress(1);
      }
    // A host is sent to by one other only, so that a path for each destination is a path for each flow.
    Ptr<UniformRandomVariable> random = CreateObject<UniformRandomVariable>();
    for (int to = 0; to < 16; ++to) {
      const int from = (to + 8) % 16, a = random->GetInteger(0, 1), c = random->GetInteger(0, 1);
      const int edge = from / 2, last = to / 2;
      route(hosts.Get(from), address[to], edge_side[from], 1);
      route(switches.Get(edge), address[to], up[edge][a], 3 + a);
      route(switches.Get(8 + edge / 2 * 2 + a), address[to], core_up[edge / 2 * 2 + a][c], 3 + c);
      route(switches.Get(16 + a * 2 + c), address[to], core_down[a * 2 + c][last / 2], 1 + last / 2);
      route(switches.Get(8 + last / 2 * 2 + a), address[to], down[last][a], 1 + last % 2);
      flow(hosts.Get(from), hosts.Get(to), address[to], from * 1e-4, end, sinks);
    }
  }
  Simulator::Stop(Seconds(end));
  const std::clock_t started = std::clock();
  Simulator::Run();
  const double seconds = static_cast<double>(std::clock() - started) / CLOCKS_PER_SEC;
  std::uint64_t received = 0;
  for (std::uint32_t i = 0; i < sinks.GetN(); ++i) received += DynamicCast<PacketSink>(sinks.Get(i))->GetTotalRx();
  std::cout << hops << " " << seconds << " " << received << "\n";
  Simulator::Destroy();
}
