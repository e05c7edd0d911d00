// Accurate ECN (RFC 9768) without its options: what the three bits AE, CWR and ECE of a TCP header, read as a number,
// mean in the handshake and in acknowledgements (the ACE field). SYNs and acknowledgements are not ECN-capable here, so
// that only data packets are counted.
#pragma once
#include <cstdint>

namespace accurate_ecn {
// The bits of a SYN (section 3.1.1) and of its answer (table 2). The answer says that the SYN came without ECN in IP.
constexpr std::uint8_t no_ecn = 0b000, classic_ask = 0b011, ask = 0b111;
constexpr std::uint8_t classic_answer = 0b001, answer = 0b010;

// The receiver's half: r.cep, and when marks call for an acknowledgement at once (section 3.2.2.5.1).
class MarkCounter {
 public:
  // A data packet arrives. True for a mark after none, and for the second mark that has not been reported.
  bool count(bool marked) {
    const bool changed = marked && !last_marked_;
    last_marked_ = marked;
    if (!marked) return false;
    ++packets_;
    return ++untold_ >= most_untold || changed;
  }
  std::uint8_t tell() {
    untold_ = 0;
    return packets_ & 0b111;
  }

 private:
  static constexpr int most_untold = 2;
  std::uint8_t packets_ = 5;  // section 3.2.1: it begins at 5
  int untold_ = 0;
  bool last_marked_ = false;
};

// The sender's half: s.cep.
class MarkReader {
 public:
  // Returns how many packets are newly marked, by the field of an acknowledgement of `delivered` more packets. Where
  // the field may have cycled, the safest case counts (section 3.2.2.5.2; appendix A.2.1). An acknowledgement that
  // delivers nothing may be late, and is left to the next one.
  std::uint64_t read(std::uint8_t field, std::uint64_t delivered) {
    if (delivered == 0) return 0;
    const std::uint64_t least = (field - packets_) & 0b111u;
    const std::uint64_t marked = delivered < least ? least : delivered - ((delivered - least) & 0b111u);
    packets_ += static_cast<std::uint8_t>(marked);
    return marked;
  }

 private:
  std::uint8_t packets_ = 5;
};
}  // namespace accurate_ecn
