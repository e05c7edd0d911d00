// What a congestion control may need to know about where it works.
#pragma once
#include <cstdint>
#include <memory>

#include "tcp/tcp_settings.hpp"

struct Coupling;  // coupled.hpp

struct ControlContext {
  const TcpSettings& tcp;
  std::shared_ptr<Coupling> coupling;  // of the flow's subflows; none for a flow alone
  std::uint32_t place;                 // among them
  std::uint64_t random;
};
