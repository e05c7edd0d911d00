// F-RTO (RFC 5682, section 3.1): whether a timeout was needless. After the first acknowledgement that follows the
// timeout, new segments are sent, and repairs wait for what these show. If something arrives that was not sent again,
// nothing was lost. This class knows whether that is still open; the sender acts on it.
#pragma once
#include <cstdint>

class ForwardRetransmission {
 public:
  enum class Tells : std::uint8_t { repair, send_new, needless };
  struct Heard {
    bool original;  // a segment that was out at the timeout has arrived, and was sent only once
    bool beyond;    // something has arrived beyond a hole
    bool partial;   // more is acknowledged, but not all that was out at the timeout
    bool new_sent;  // new segments were sent since the timeout
  };

  // A timeout. alone: no recovery was under way, except for other timeouts of the same segment (section 3.2).
  void begin(bool alone) { open_ = alone; }
  // An acknowledgement.
  Tells hear(const Heard& heard) {
    if (!open_) return Tells::repair;
    if (heard.original) return open_ = false, Tells::needless;
    if (heard.new_sent)
      open_ = !heard.beyond;  // beyond: new segments arrive, those before them do not
    else if (heard.partial)
      return Tells::send_new;
    return Tells::repair;
  }
  // No new segment could be sent.
  void give_up() { open_ = false; }

 private:
  bool open_ = false;
};
