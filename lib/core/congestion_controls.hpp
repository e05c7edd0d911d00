// Congestion controls by name.
#pragma once
#include <memory>
#include <string>

#include "congestion_control.hpp"
#include "coupled.hpp"
#include "tcp_settings.hpp"

enum class ControlKind : std::uint8_t { reno, cubic, dctcp, lia, olia, bbr, rcp };

// What a congestion control may need to know of where it works.
struct ControlContext {
  const TcpSettings& tcp;
  std::shared_ptr<Coupling> coupling;  // of the flow's subflows; none for a flow alone
  std::uint32_t place;                 // among them
  std::uint64_t random;
};

ControlKind control_named(const std::string& name);  // throws std::invalid_argument
std::unique_ptr<CongestionControl> make_control(ControlKind kind, const ControlContext& context);
