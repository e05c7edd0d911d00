// Congestion controls by name.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "congestion/control_context.hpp"
#include "tcp/congestion_control.hpp"

using MakeControl = std::unique_ptr<CongestionControl> (*)(const ControlContext&);

MakeControl control_named(const std::string& name);  // throws std::invalid_argument
std::vector<std::string> control_names();
