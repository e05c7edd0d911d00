// Congestion controls by name.
#pragma once
#include <memory>
#include <string>

#include "congestion_control.hpp"

enum class ControlKind : std::uint8_t { reno, cubic, dctcp };

ControlKind control_named(const std::string& name);  // throws std::invalid_argument
std::unique_ptr<CongestionControl> make_control(ControlKind kind, double dctcp_first_alpha);
