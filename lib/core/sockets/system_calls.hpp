// Helpers for all system calls: the error that a call leaves, an option of a socket, a clock.
#pragma once
#include <sys/socket.h>

#include <cerrno>
#include <cstdint>
#include <ctime>
#include <string>
#include <system_error>

[[noreturn]] inline void throw_errno(const std::string& what) {
  throw std::system_error(errno, std::generic_category(), what);
}

inline void set_option(int socket, int level, int option, int value, const char* what) {
  if (setsockopt(socket, level, option, &value, sizeof value)) throw_errno(what);
}

inline std::int64_t clock_ns(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return now.tv_sec * 1'000'000'000 + now.tv_nsec;
}
