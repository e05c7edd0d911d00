#include "departure_wait.hpp"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <ctime>

namespace {

// What bpf(2) takes, in words of our own: the headers to compile with may be older than the kernel.
#if defined(SYS_bpf)
constexpr long bpf_call = SYS_bpf;
#elif defined(__x86_64__)
constexpr long bpf_call = 321;
#else
constexpr long bpf_call = 280;
#endif
enum Command { make_map = 0, load_program = 5, attach_link = 28 };
struct MapWanted {
  std::uint32_t type, key_bytes, value_bytes, entries, flags;
};
struct ProgramWanted {
  std::uint32_t type, count;
  std::uint64_t instructions, licence;
};
struct LinkWanted {
  std::uint32_t program, interface, place, flags;
};
struct Instruction {
  std::uint8_t code, registers;
  std::int16_t offset;
  std::int32_t number;
};
constexpr std::uint32_t array_map = 2, may_be_mapped = 1 << 10, of_traffic_control = 3, tcx_egress = 47;
constexpr std::int32_t map_value = 2, clock_tai = 208, go_on = -1;
constexpr std::int32_t most_looks = 1000;         // each takes some tens of ns
constexpr std::size_t shared_bytes = 4096;        // a page, the least that can be mapped
constexpr int scratch = 1, result = 0, longest = 2, due = 6, looks_left = 7, looked = 8, shared = 9;  // registers

template <class Wanted>
int bpf(Command command, const Wanted& wanted) {
  return static_cast<int>(syscall(bpf_call, command, &wanted, sizeof wanted));
}

constexpr Instruction instruction(std::uint8_t code, int to, int from, std::int16_t offset, std::int32_t number) {
  return {code, static_cast<std::uint8_t>(from << 4 | to), offset, number};
}
constexpr Instruction load(int to, int from, std::size_t offset) {
  return instruction(0x79, to, from, static_cast<std::int16_t>(offset), 0);
}
constexpr Instruction store(int to, std::size_t offset, int from) {
  return instruction(0x7b, to, from, static_cast<std::int16_t>(offset), 0);
}
constexpr Instruction set(int to, std::int32_t number) { return instruction(0xb7, to, 0, 0, number); }
constexpr Instruction copy(int to, int from) { return instruction(0xbf, to, from, 0, 0); }
constexpr Instruction subtract(int to, int from) { return instruction(0x1f, to, from, 0, 0); }
constexpr Instruction count_down(int of) { return instruction(0x17, of, 0, 0, 1); }
constexpr Instruction call(std::int32_t helper) { return instruction(0x85, 0, 0, 0, helper); }
constexpr Instruction skip_if_zero(int of, std::int16_t count) { return instruction(0x15, of, 0, count, 0); }
constexpr Instruction skip_unless_zero(int of, std::int16_t count) { return instruction(0x55, of, 0, count, 0); }
constexpr Instruction skip_if_at_most(int of, int other, std::int16_t count) {
  return instruction(0xdd, of, other, count, 0);
}
constexpr Instruction skip_if_at_least(int of, int other, std::int16_t count) {
  return instruction(0x7d, of, other, count, 0);
}
constexpr Instruction leave() { return instruction(0x95, 0, 0, 0, 0); }

std::int64_t nanoseconds(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return now.tv_sec * 1'000'000'000 + now.tv_nsec;
}

}  // namespace

int DepartureWait::load_program_of(int map) {
  const std::array program{
      instruction(0x18, shared, map_value, 0, map),
      instruction(0, 0, 0, 0, 0),  // the second half of that
      load(due, shared, offsetof(Shared, due_ns)),
      skip_if_zero(due, 16),  // no packet is to wait
      load(looked, shared, offsetof(Shared, looked_ns)),
      set(looks_left, most_looks),
      call(clock_tai),  // look
      copy(scratch, result),
      subtract(scratch, looked),
      copy(looked, result),
      load(longest, shared, offsetof(Shared, gap_ns)),
      skip_if_at_most(scratch, longest, 2),
      store(shared, offsetof(Shared, gap_ns), scratch),
      store(shared, offsetof(Shared, gap_end_ns), looked),
      skip_if_at_least(looked, due, 2),  // the time has come
      count_down(looks_left),
      skip_unless_zero(looks_left, -11),  // look again
      store(shared, offsetof(Shared, looked_ns), looked),
      set(scratch, 0),
      store(shared, offsetof(Shared, due_ns), scratch),
      set(result, go_on),
      leave(),
  };
  static constexpr char licence[] = "GPL";  // the kernel's clocks are for such programs only
  return bpf(load_program, ProgramWanted{of_traffic_control, program.size(),
                                         reinterpret_cast<std::uint64_t>(program.data()),
                                         reinterpret_cast<std::uint64_t>(licence)});
}

std::unique_ptr<DepartureWait> DepartureWait::make() {
  std::unique_ptr<DepartureWait> made(new DepartureWait);
  made->map_ = bpf(make_map, MapWanted{array_map, 4, sizeof(Shared), 1, may_be_mapped});
  if (made->map_ < 0) return nullptr;
  void* page = mmap(nullptr, shared_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, made->map_, 0);
  if (page == MAP_FAILED) return nullptr;
  made->shared_ = static_cast<volatile Shared*>(page);
  made->program_ = load_program_of(made->map_);
  if (made->program_ < 0) return nullptr;
  // Both clocks take the same steps, whole seconds apart.
  const std::int64_t apart = nanoseconds(CLOCK_TAI) - nanoseconds(CLOCK_REALTIME);
  made->offset_ns_ = (apart + 500'000'000) / 1'000'000'000 * 1'000'000'000;
  return made;
}

DepartureWait::~DepartureWait() {
  for (const auto& [interface, link] : links_)
    if (link >= 0) close(link);
  if (shared_ != nullptr) munmap(const_cast<Shared*>(shared_), shared_bytes);
  if (program_ >= 0) close(program_);
  if (map_ >= 0) close(map_);
}

bool DepartureWait::attach(int interface) {
  const auto [place, fresh] = links_.try_emplace(interface, -1);
  if (fresh)
    place->second = bpf(attach_link, LinkWanted{static_cast<std::uint32_t>(program_),
                                                static_cast<std::uint32_t>(interface), tcx_egress, 0});
  return place->second >= 0;
}

void DepartureWait::expect(std::int64_t due_ns, std::int64_t now_ns) {
  shared_->looked_ns = now_ns + offset_ns_;
  shared_->gap_ns = 0;
  shared_->due_ns = due_ns + offset_ns_;
}

DepartureWait::Seen DepartureWait::finish() {
  shared_->due_ns = 0;
  return {shared_->looked_ns - offset_ns_, shared_->gap_end_ns - offset_ns_, shared_->gap_ns};
}
