#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <cstdint>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "bindings/module.hpp"
#include "captures/flow_meter.hpp"

namespace py = pybind11;

namespace {

template <typename Value>
py::array_t<Value> copy_out(const std::vector<Value>& values, std::size_t rows, std::size_t columns) {
  return py::array_t<Value>({rows, columns}, values.data());
}

template <typename Value>
py::array_t<Value> copy_out(const std::vector<Value>& values) {
  return py::array_t<Value>(values.size(), values.data());
}

// Rows in the order in which flows began, column by column.
class Columns {
 public:
  Columns(const FlowTable& table, std::size_t first_lengths)
      : rows_(table.rows()), first_lengths_(table.first_lengths()), lengths_of_a_row_(2 * first_lengths) {
    order_.reserve(rows_.size());
    for (std::size_t row = 0; row < rows_.size(); ++row) order_.emplace_back(rows_[row].number, row);
    std::sort(order_.begin(), order_.end());
  }

  template <typename As, typename Value>
  py::array_t<As> of(Value FlowRow::* field) const {
    py::array_t<As> column(order_.size());
    std::transform(order_.begin(), order_.end(), column.mutable_data(),
                   [&](const auto& place) { return static_cast<As>(rows_[place.second].*field); });
    return column;
  }

  py::array_t<uint64_t> of(uint64_t (FlowRow::*field)[2]) const {
    py::array_t<uint64_t> words({order_.size(), std::size_t{2}});
    uint64_t* to = words.mutable_data();
    for (const auto& [number, row] : order_) to = std::copy_n(rows_[row].*field, 2, to);
    return words;
  }

  // A line for each feature.
  py::array_t<double> features() const {
    return lines<double>(FlowRecord::kFeatures, [&](std::size_t row) { return rows_[row].features.begin(); });
  }
  // A line for each of the first packets.
  py::array_t<int64_t> first_lengths() const {
    return lines<int64_t>(lengths_of_a_row_, [&](std::size_t row) {
      return first_lengths_.begin() + static_cast<std::ptrdiff_t>(row * lengths_of_a_row_);
    });
  }

 private:
  template <typename As, typename Begin>
  py::array_t<As> lines(std::size_t count, const Begin& begin) const {
    py::array_t<As> out({count, order_.size()});
    As* const to = out.mutable_data();
    for (std::size_t i = 0; i < order_.size(); ++i) {
      auto from = begin(order_[i].second);
      for (std::size_t line = 0; line < count; ++line) to[line * order_.size() + i] = static_cast<As>(*from++);
    }
    return out;
  }

  const std::deque<FlowRow>& rows_;
  const std::deque<uint32_t>& first_lengths_;
  std::size_t lengths_of_a_row_;
  std::vector<std::pair<uint64_t, std::size_t>> order_;
};

py::dict columns_of(const FlowTable& table, std::size_t first_lengths) {
  const Columns columns(table, first_lengths);
  py::dict out;
  out["source_address"] = columns.of(&FlowRow::source_address);
  out["destination_address"] = columns.of(&FlowRow::destination_address);
  out["source_port"] = columns.of<uint16_t>(&FlowRow::source_port);
  out["destination_port"] = columns.of<uint16_t>(&FlowRow::destination_port);
  out["protocol"] = columns.of<uint8_t>(&FlowRow::protocol);
  out["ip_version"] = columns.of<uint8_t>(&FlowRow::ip_version);
  out["valid"] = columns.of<bool>(&FlowRow::valid);
  out["starts_with_syn"] = columns.of<bool>(&FlowRow::starts_with_syn);
  out["end"] = columns.of<int8_t>(&FlowRow::end);
  out["forward_packets"] = columns.of<int64_t>(&FlowRow::forward_packets);
  out["forward_bytes"] = columns.of<int64_t>(&FlowRow::forward_bytes);
  out["backward_packets"] = columns.of<int64_t>(&FlowRow::backward_packets);
  out["backward_bytes"] = columns.of<int64_t>(&FlowRow::backward_bytes);
  out["start_us"] = columns.of<int64_t>(&FlowRow::start_us);
  out["end_us"] = columns.of<int64_t>(&FlowRow::end_us);
  out["features"] = columns.features();
  out["first_lengths"] = columns.first_lengths();
  return out;
}

py::dict counts_of(const CaptureCounts& counts) {
  py::dict out;
#define COUNT(field) out[#field] = counts.field
  COUNT(packets);
  COUNT(metered);
  COUNT(not_ip);
  COUNT(arp);
  COUNT(llc);
  COUNT(ppp_control);
  COUNT(mpls_other);
  COUNT(other_encapsulation);
  COUNT(other_link_protocols);
  COUNT(unsupported_link);
  COUNT(cut_in_headers);
  COUNT(bad_ip_header);
  COUNT(later_fragments);
  COUNT(empty_records);
  COUNT(ipv6);
  COUNT(vlan_tagged);
  COUNT(mpls_labelled);
  COUNT(pppoe_sessions);
  COUNT(first_fragments);
  COUNT(zero_ip_length);
  COUNT(length_beyond_wire);
  COUNT(bad_transport_header);
  COUNT(after_close);
  COUNT(without_time);
  COUNT(backwards_in_capture);
  COUNT(backwards_in_flow);
  COUNT(shortened_records);
  COUNT(other_blocks);
  COUNT(unknown_blocks);
  COUNT(corrupt_records);
  COUNT(truncated_records);
  COUNT(unread_bytes);
#undef COUNT
  return out;
}

// The meter and its settings, as Python sees them.
class BoundMeter {
 public:
  BoundMeter(const MeterSettings& settings, bool two_cores) : settings_(settings), meter_(settings, two_cores) {}

  void feed(const py::buffer& chunk) {
    const py::buffer_info view = chunk.request();
    const auto* bytes = static_cast<const uint8_t*>(view.ptr);
    const auto size = static_cast<std::size_t>(view.size * view.itemsize);
    py::gil_scoped_release release;
    meter_.feed(bytes, size);
  }
  void end_file() { meter_.end_file(); }
  void end_capture() {
    py::gil_scoped_release release;
    meter_.end_capture();
  }
  py::dict columns() const { return columns_of(meter_.table(), settings_.first_lengths); }
  py::dict counts() const { return counts_of(meter_.counts()); }
  std::set<uint32_t> unsupported_links() const { return meter_.unsupported_links(); }

 private:
  MeterSettings settings_;
  FlowMeter meter_;
};

// The packets of a capture, undecoded: the first bytes of each, and what its record says.
class BoundPacketReader : public PacketSink {
 public:
  explicit BoundPacketReader(std::size_t kept_bytes) : kept_bytes_(kept_bytes) {}

  void feed(const py::bytes& chunk) {
    const auto view = static_cast<std::string_view>(chunk);
    reader_.feed(reinterpret_cast<const uint8_t*>(view.data()), view.size());
  }
  void finish() { reader_.finish(); }
  void on_packet(const CapturedPacket& packet) override {
    const std::size_t begin = heads_.size(), kept = std::min<std::size_t>(packet.captured_bytes, kept_bytes_);
    heads_.resize(begin + kept_bytes_);
    std::copy_n(packet.bytes, kept, heads_.begin() + static_cast<std::ptrdiff_t>(begin));
    time_us_.push_back(packet.time_us);
    captured_bytes_.push_back(packet.captured_bytes);
    wire_bytes_.push_back(packet.wire_bytes);
    link_type_.push_back(packet.link_type);
    comments_.emplace_back(packet.comment);
  }
  std::size_t packets() const { return time_us_.size(); }
  // Returns what was read since the last call.
  py::dict take() {
    py::dict out;
    out["heads"] = copy_out(heads_, packets(), kept_bytes_);
    out["time_us"] = copy_out(time_us_);
    out["captured_bytes"] = copy_out(captured_bytes_);
    out["wire_bytes"] = copy_out(wire_bytes_);
    out["link_type"] = copy_out(link_type_);
    py::list comments;
    for (const std::string& comment : comments_) comments.append(py::bytes(comment));
    out["comments"] = comments;
    heads_.clear(), time_us_.clear(), captured_bytes_.clear(), wire_bytes_.clear(), link_type_.clear();
    comments_.clear();
    return out;
  }

 private:
  CaptureCounts counts_{};
  CaptureReader reader_{*this, counts_};
  std::size_t kept_bytes_;
  std::vector<uint8_t> heads_;
  std::vector<int64_t> time_us_, captured_bytes_, wire_bytes_, link_type_;
  std::vector<std::string> comments_;
};

void bind_packet_reader(py::module_& module) {
  py::class_<BoundPacketReader>(module, "PacketReader", "The packets of a capture, undecoded, with their comments.")
      .def(py::init<std::size_t>(), py::arg("kept_bytes"))
      .def("feed", &BoundPacketReader::feed, "The next bytes of the capture file.")
      .def("finish", &BoundPacketReader::finish)
      .def("packets", &BoundPacketReader::packets, "How many wait to be taken.")
      .def("take", &BoundPacketReader::take, "Columns of what was read since the last call.");
}

void bind_meter(py::module_& module) {
  module.def("starts_a_capture", [](const py::bytes& head) {
    const auto view = static_cast<std::string_view>(head);
    return CaptureReader::starts_a_capture(reinterpret_cast<const uint8_t*>(view.data()), view.size());
  });
  module.attr("flow_features") =
      std::vector<std::string>(FlowRecord::kFeatureNames.begin(), FlowRecord::kFeatureNames.end());
  py::class_<BoundMeter>(module, "FlowMeter")
      .def(py::init([](int64_t timeout_us, int64_t idle_threshold_us, uint64_t first_packets, bool handshake,
                       bool netmate_quirks, bool end_on_close, bool forward_is_opener, std::size_t first_lengths,
                       bool two_cores) {
             const MeterSettings settings{timeout_us,     idle_threshold_us, first_packets,     handshake,
                                          netmate_quirks, end_on_close,      forward_is_opener, first_lengths};
             return std::make_unique<BoundMeter>(settings, two_cores);
           }),
           py::kw_only(), py::arg("timeout_us"), py::arg("idle_threshold_us"), py::arg("first_packets"),
           py::arg("handshake"), py::arg("netmate_quirks"), py::arg("end_on_close"), py::arg("forward_is_opener"),
           py::arg("first_lengths"), py::arg("two_cores"))
      .def("feed", &BoundMeter::feed, "The next bytes of the capture file.")
      .def("end_file", &BoundMeter::end_file)
      .def("end_capture", &BoundMeter::end_capture, "Ends every open flow; to be called before what follows.")
      .def("columns", &BoundMeter::columns, "Of the flows in the order in which they began; features a line each.")
      .def("counts", &BoundMeter::counts)
      .def("unsupported_links", &BoundMeter::unsupported_links, "The link types of packets that were not decoded.");
}

}  // namespace

void bind_traffic(py::module_& module) {
  bind_meter(module);
  bind_packet_reader(module);
}
