// What arrives at the interfaces of one network namespace, in a ring shared with the kernel (TPACKET_V2).
//
// The kernel stamps each packet, so its arrival is known exactly however late it is read.
#pragma once
#include <linux/if_packet.h>

#include <cstddef>
#include <cstdint>

class PacketRing {
 public:
  struct Arrival {
    int interface;
    std::int64_t stamp_ns;  // CLOCK_REALTIME
    const unsigned char* bytes;
    std::uint32_t size;  // bytes that the ring holds
    bool whole;          // the packet is no larger
  };

  // Of all interfaces that there are or will be. Throws std::system_error when the kernel refuses.
  PacketRing();
  ~PacketRing();
  PacketRing(const PacketRing&) = delete;
  PacketRing& operator=(const PacketRing&) = delete;

  // Calls take(arrival) for everything that has come, or the first `most`; the bytes are valid only meanwhile.
  template <class Take>
  void drain(Take&& take, std::size_t most = frames) {
    for (; most > 0; --most) {
      unsigned char* frame = ring_ + next_frame_ * frame_bytes;
      auto* header = reinterpret_cast<tpacket2_hdr*>(frame);
      if (!(__atomic_load_n(&header->tp_status, __ATOMIC_ACQUIRE) & TP_STATUS_USER)) return;
      const auto* from = reinterpret_cast<const sockaddr_ll*>(frame + TPACKET_ALIGN(sizeof(tpacket2_hdr)));
      const std::int64_t stamp_ns = std::int64_t{header->tp_sec} * 1'000'000'000 + header->tp_nsec;
      take(Arrival{from->sll_ifindex, stamp_ns, frame + header->tp_mac, header->tp_snaplen,
                   header->tp_snaplen >= header->tp_len});
      __atomic_store_n(&header->tp_status, TP_STATUS_KERNEL, __ATOMIC_RELEASE);
      next_frame_ = (next_frame_ + 1) % frames;
    }
  }

  std::uint64_t take_missed();                 // arrivals that found the ring full, since the last call
  void wait(std::int64_t nanoseconds) const;  // until something arrives, or so long

 private:
  static constexpr std::size_t frame_bytes = 2048, frames = 8192, frames_per_block = 32;

  void open();
  void close_all();

  int socket_ = -1;
  unsigned char* ring_ = nullptr;
  std::size_t next_frame_ = 0;
};
