#include "congestion_controls.hpp"

#include <stdexcept>

#include "cubic.hpp"
#include "dctcp.hpp"
#include "reno.hpp"

ControlKind control_named(const std::string& name) {
  if (name == "reno") return ControlKind::reno;
  if (name == "cubic") return ControlKind::cubic;
  if (name == "dctcp") return ControlKind::dctcp;
  throw std::invalid_argument("no congestion control " + name);
}

std::unique_ptr<CongestionControl> make_control(ControlKind kind, double dctcp_first_alpha) {
  switch (kind) {
    case ControlKind::cubic:
      return std::make_unique<Cubic>();
    case ControlKind::dctcp:
      return std::make_unique<Dctcp>(dctcp_first_alpha);
    case ControlKind::reno:
      break;
  }
  return std::make_unique<Reno>();
}
