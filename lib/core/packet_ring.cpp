#include "packet_ring.hpp"

#include <arpa/inet.h>
#include <linux/if_ether.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <ctime>
#include <system_error>

namespace {

[[noreturn]] void fail(const char* what) { throw std::system_error(errno, std::generic_category(), what); }

}  // namespace

PacketRing::PacketRing() {
  try {
    open();
  } catch (...) {
    close_all();
    throw;
  }
}

PacketRing::~PacketRing() { close_all(); }

void PacketRing::close_all() {
  if (ring_) munmap(ring_, frame_bytes * frames);
  if (socket_ >= 0) close(socket_);
}

void PacketRing::open() {
  // Protocol 0 first: nothing must arrive before the ring is there and outgoing packets are ignored.
  socket_ = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);
  if (socket_ < 0) fail("packet socket");
  const int version = TPACKET_V2, yes = 1;
  if (setsockopt(socket_, SOL_PACKET, PACKET_VERSION, &version, sizeof version)) fail("TPACKET_V2");
  if (setsockopt(socket_, SOL_PACKET, PACKET_IGNORE_OUTGOING, &yes, sizeof yes)) fail("ignore outgoing");
  if (setsockopt(socket_, SOL_SOCKET, SO_TIMESTAMPNS, &yes, sizeof yes)) fail("arrival stamps");
  tpacket_req request{};
  request.tp_frame_size = frame_bytes;
  request.tp_frame_nr = frames;
  request.tp_block_size = frame_bytes * frames_per_block;
  request.tp_block_nr = frames / frames_per_block;
  if (setsockopt(socket_, SOL_PACKET, PACKET_RX_RING, &request, sizeof request)) fail("packet ring");
  void* mapped = mmap(nullptr, frame_bytes * frames, PROT_READ | PROT_WRITE, MAP_SHARED, socket_, 0);
  if (mapped == MAP_FAILED) fail("packet ring");
  ring_ = static_cast<unsigned char*>(mapped);
  sockaddr_ll all{};
  all.sll_family = AF_PACKET;
  all.sll_protocol = htons(ETH_P_ALL);
  if (bind(socket_, reinterpret_cast<sockaddr*>(&all), sizeof all)) fail("bind");
}

std::uint64_t PacketRing::take_missed() {
  tpacket_stats statistics{};  // since the last call
  socklen_t length = sizeof statistics;
  return getsockopt(socket_, SOL_PACKET, PACKET_STATISTICS, &statistics, &length) == 0 ? statistics.tp_drops : 0;
}

void PacketRing::wait(std::int64_t nanoseconds) const {
  const timespec left{nanoseconds / 1'000'000'000, nanoseconds % 1'000'000'000};
  pollfd arrivals{socket_, POLLIN, 0};
  if (ppoll(&arrivals, 1, &left, nullptr) < 0 && errno != EINTR) fail("poll");
}
