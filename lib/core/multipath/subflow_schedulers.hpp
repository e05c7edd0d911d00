// Schedulers of subflows by name.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "multipath/subflow_scheduler.hpp"
#include "tcp/tcp_settings.hpp"

MakeScheduler scheduler_named(const std::string& name);  // throws std::invalid_argument
std::vector<std::string> scheduler_names();
