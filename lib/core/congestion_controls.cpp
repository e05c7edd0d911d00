#include "congestion_controls.hpp"

#include <stdexcept>

#include "bbr.hpp"
#include "cubic.hpp"
#include "dctcp.hpp"
#include "rcp.hpp"
#include "reno.hpp"

ControlKind control_named(const std::string& name) {
  if (name == "reno") return ControlKind::reno;
  if (name == "cubic") return ControlKind::cubic;
  if (name == "dctcp") return ControlKind::dctcp;
  if (name == "lia") return ControlKind::lia;
  if (name == "olia") return ControlKind::olia;
  if (name == "rcp") return ControlKind::rcp;
  if (name == "bbr") return ControlKind::bbr;
  throw std::invalid_argument("no congestion control " + name);
}

std::unique_ptr<CongestionControl> make_control(ControlKind kind, const ControlContext& context) {
  switch (kind) {
    case ControlKind::cubic:
      return std::make_unique<Cubic>(context.tcp.hystart);
    case ControlKind::dctcp:
      return std::make_unique<Dctcp>(context.tcp.dctcp_first_alpha);
    case ControlKind::bbr:
      return std::make_unique<Bbr>(context.tcp.segment_bytes, context.tcp.initial_window, context.random);
    case ControlKind::lia:
      if (context.coupling) return std::make_unique<Lia>(context.coupling, context.place);
      break;
    case ControlKind::olia:
      if (context.coupling) return std::make_unique<Olia>(context.coupling, context.place);
      break;
    case ControlKind::rcp:
      return std::make_unique<RcpControl>(context.tcp.segment_bytes);
    case ControlKind::reno:
      break;
  }
  return std::make_unique<Reno>();
}
