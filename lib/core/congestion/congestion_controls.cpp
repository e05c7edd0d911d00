#include "congestion/congestion_controls.hpp"

#include <type_traits>

#include "base/registry.hpp"
#include "congestion/bbr.hpp"
#include "congestion/bbr3.hpp"
#include "congestion/bic.hpp"
#include "congestion/coupled.hpp"
#include "congestion/cubic.hpp"
#include "congestion/dctcp.hpp"
#include "congestion/prague.hpp"
#include "congestion/rcp.hpp"
#include "congestion/reno.hpp"
#include "congestion/suss.hpp"
#include "congestion/xcp.hpp"

namespace {
template <class Control>
std::unique_ptr<CongestionControl> made(const ControlContext& context) {
  if constexpr (std::is_constructible_v<Control, const ControlContext&>)
    return std::make_unique<Control>(context);
  else
    return std::make_unique<Control>();
}

// Makes a coupled control for a flow with subflows, and Reno for a flow without.
template <class Control>
std::unique_ptr<CongestionControl> coupled(const ControlContext& context) {
  return context.coupling ? made<Control>(context) : made<Reno>(context);
}

// A line for each control; its class takes a ControlContext, or nothing.
constexpr struct {
  const char* name;
  MakeControl make;
} registry[] = {
    {"reno", made<Reno>},      {"cubic", made<Cubic>},    {"dctcp", made<Dctcp>},    {"bbr", made<Bbr>},
    {"lia", coupled<Lia>},     {"olia", coupled<Olia>},   {"rcp", made<RcpControl>}, {"bic", made<Bic>},
    {"suss", made<Suss>},      {"balia", coupled<Balia>}, {"prague", made<Prague>},  {"bbr3", made<Bbr3>},
    {"xcp", made<XcpControl>},
};
}  // namespace

MakeControl control_named(const std::string& name) { return made_by_name(registry, name, "congestion control"); }

std::vector<std::string> control_names() { return names_in(registry); }
