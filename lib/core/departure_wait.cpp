#include "departure_wait.hpp"

#include <linux/bpf.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstring>
#include <ctime>

namespace {

constexpr std::uint32_t tcx_egress = 47, go_on = 0xFFFFFFFF;  // newer than some kernels' headers
constexpr std::int32_t clock_tai = 208, most_looks = 1000;    // each takes some tens of ns
constexpr std::size_t shared_bytes = 4096;  // a page, the least that can be mapped

int bpf(int command, bpf_attr& attributes) {
  return static_cast<int>(syscall(SYS_bpf, command, &attributes, sizeof attributes));
}

bpf_attr cleared() {
  bpf_attr attributes;
  std::memset(&attributes, 0, sizeof attributes);
  return attributes;
}

std::int64_t nanoseconds(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return now.tv_sec * 1'000'000'000 + now.tv_nsec;
}

constexpr bpf_insn instruction(std::uint8_t code, std::uint8_t to, std::uint8_t from, std::int16_t offset,
                               std::int32_t number) {
  bpf_insn made{};
  made.code = code;
  made.dst_reg = to & 0xF;
  made.src_reg = from & 0xF;
  made.off = offset;
  made.imm = number;
  return made;
}

}  // namespace

int DepartureWait::load(int map) {
  // r9: shared, r6: due, r8: looked, r7: looks left
  const std::array program{
      instruction(BPF_LD | BPF_IMM | BPF_DW, BPF_REG_9, BPF_PSEUDO_MAP_VALUE, 0, map),
      instruction(0, 0, 0, 0, 0),
      instruction(BPF_LDX | BPF_MEM | BPF_DW, BPF_REG_6, BPF_REG_9, offsetof(Shared, due_ns), 0),
      instruction(BPF_JMP | BPF_JEQ | BPF_K, BPF_REG_6, 0, 15, 0),  // nothing to wait for: to the end
      instruction(BPF_LDX | BPF_MEM | BPF_DW, BPF_REG_8, BPF_REG_9, offsetof(Shared, looked_ns), 0),
      instruction(BPF_ALU64 | BPF_MOV | BPF_K, BPF_REG_7, 0, 0, most_looks),
      instruction(BPF_JMP | BPF_CALL, 0, 0, 0, clock_tai),  // look:
      instruction(BPF_ALU64 | BPF_MOV | BPF_X, BPF_REG_1, BPF_REG_0, 0, 0),
      instruction(BPF_ALU64 | BPF_SUB | BPF_X, BPF_REG_1, BPF_REG_8, 0, 0),
      instruction(BPF_ALU64 | BPF_MOV | BPF_X, BPF_REG_8, BPF_REG_0, 0, 0),
      instruction(BPF_LDX | BPF_MEM | BPF_DW, BPF_REG_2, BPF_REG_9, offsetof(Shared, gap_ns), 0),
      instruction(BPF_JMP | BPF_JSLE | BPF_X, BPF_REG_1, BPF_REG_2, 2, 0),  // not the longest gap
      instruction(BPF_STX | BPF_MEM | BPF_DW, BPF_REG_9, BPF_REG_1, offsetof(Shared, gap_ns), 0),
      instruction(BPF_STX | BPF_MEM | BPF_DW, BPF_REG_9, BPF_REG_8, offsetof(Shared, gap_end_ns), 0),
      instruction(BPF_JMP | BPF_JSGE | BPF_X, BPF_REG_8, BPF_REG_6, 2, 0),  // the time has come
      instruction(BPF_ALU64 | BPF_SUB | BPF_K, BPF_REG_7, 0, 0, 1),
      instruction(BPF_JMP | BPF_JNE | BPF_K, BPF_REG_7, 0, -11, 0),  // look again
      instruction(BPF_ALU64 | BPF_MOV | BPF_K, BPF_REG_1, 0, 0, 0),
      instruction(BPF_STX | BPF_MEM | BPF_DW, BPF_REG_9, BPF_REG_1, offsetof(Shared, due_ns), 0),
      instruction(BPF_ALU64 | BPF_MOV | BPF_K, BPF_REG_0, 0, 0, static_cast<std::int32_t>(go_on)),  // end:
      instruction(BPF_JMP | BPF_EXIT, 0, 0, 0, 0),
  };
  bpf_attr attributes = cleared();
  attributes.prog_type = BPF_PROG_TYPE_SCHED_CLS;
  attributes.insns = reinterpret_cast<std::uint64_t>(program.data());
  attributes.insn_cnt = program.size();
  attributes.license = reinterpret_cast<std::uint64_t>("GPL");
  return bpf(BPF_PROG_LOAD, attributes);
}

std::unique_ptr<DepartureWait> DepartureWait::make() {
  std::unique_ptr<DepartureWait> made(new DepartureWait);
  bpf_attr attributes = cleared();
  attributes.map_type = BPF_MAP_TYPE_ARRAY;
  attributes.key_size = 4;
  attributes.value_size = sizeof(Shared);
  attributes.max_entries = 1;
  attributes.map_flags = BPF_F_MMAPABLE;
  made->map_ = bpf(BPF_MAP_CREATE, attributes);
  if (made->map_ < 0) return nullptr;
  void* shared = mmap(nullptr, shared_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, made->map_, 0);
  if (shared == MAP_FAILED) return nullptr;
  made->shared_ = static_cast<volatile Shared*>(shared);
  made->program_ = load(made->map_);
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
  if (fresh) {
    bpf_attr attributes = cleared();
    attributes.link_create.prog_fd = static_cast<std::uint32_t>(program_);
    attributes.link_create.target_ifindex = static_cast<std::uint32_t>(interface);
    attributes.link_create.attach_type = tcx_egress;
    place->second = bpf(BPF_LINK_CREATE, attributes);
  }
  return place->second >= 0;
}

void DepartureWait::expect(std::int64_t due_ns, std::int64_t now_ns) {
  shared_->looked_ns = now_ns + offset_ns_;
  shared_->gap_ns = 0;
  shared_->due_ns = due_ns + offset_ns_;
}

DepartureWait::Gap DepartureWait::finish() {
  shared_->due_ns = 0;
  return {shared_->gap_end_ns - offset_ns_, shared_->gap_ns};
}
