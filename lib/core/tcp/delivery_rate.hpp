// The sender's half of the delivery rate (draft-cheng-iccrg-delivery-rate-estimation, as in Linux's tcp_rate.c): what
// is noted of each segment when it leaves, and what an acknowledgement makes of that. It is for congestion controls
// that own their window.
#pragma once
#include <algorithm>
#include <cstdint>
#include <utility>

#include "base/ring.hpp"
#include "tcp/rate_sample.hpp"

class DeliveryRate {
 public:
  // A segment leaves; alone: nothing else is out. in_flight: segments, with it. lost, marked: of the whole connection.
  void on_sent(std::uint64_t segment, bool alone, double in_flight, std::uint64_t lost, double marked, Time now) {
    if (alone) first_sent_ = delivered_at_ = now;
    const RateMark mark{first_sent_,
                        delivered_at_,
                        delivered_,
                        application_limited(),
                        static_cast<std::uint32_t>(in_flight),
                        static_cast<std::uint32_t>(lost),
                        whole(marked)};
    if (segment == marks_.tail())
      marks_.push(mark);
    else
      marks_[segment] = mark;
  }
  void on_delivered(std::uint64_t segment, Time sent_at) {
    delivered_ += 1;
    const RateMark& mark = marks_[segment];
    if (sampled_ && mark.delivered < newest_.delivered) return;
    sampled_ = true;
    newest_ = mark;
    send_interval_ = sent_at - mark.first_sent;
    first_sent_ = sent_at;
  }
  void forget_below(std::uint64_t segment) {
    while (marks_.head() < segment) marks_.pop();
  }

  // Segments that are sent until all that is out now has arrived do not measure the path.
  void limit_by_application(double in_flight) { limited_until_ = std::max(1.0, delivered_ + in_flight); }
  bool application_limited() const { return limited_until_ > 0; }
  double delivered() const { return delivered_; }
  const RateMark& operator[](std::uint64_t segment) const { return marks_[segment]; }

  // The sample of an acknowledgement that has been processed.
  RateSample sample(Time now, double newly_delivered, std::uint64_t lost, double marked, Time smallest_round_trip) {
    if (application_limited() && delivered_ > limited_until_) limited_until_ = 0;
    RateSample sample{now};
    if (newly_delivered > 0) delivered_at_ = now;
    if (std::exchange(sampled_, false)) {
      sample.prior_delivered = newest_.delivered;
      sample.application_limited = newest_.application_limited;
      sample.in_flight_at_departure = newest_.in_flight;
      sample.lost = static_cast<std::uint32_t>(lost) - newest_.lost;
      sample.marked = whole(marked) - newest_.marked;
      sample.interval = std::max(send_interval_, now - newest_.delivered_at);
      // A sample within less than a round trip compresses acknowledgements: it tells nothing.
      if (sample.interval >= smallest_round_trip) sample.delivered = delivered_ - newest_.delivered;
    }
    sample.total_delivered = delivered_;
    sample.delivered_at = delivered_at_;
    sample.newly_delivered = newly_delivered;
    return sample;
  }

 private:
  static std::uint32_t whole(double segments) {
    return static_cast<std::uint32_t>(static_cast<std::uint64_t>(segments));
  }

  Ring<RateMark> marks_;  // of segments that are not acknowledged
  Time first_sent_ = 0, delivered_at_ = 0;
  double delivered_ = 0, limited_until_ = 0;
  // These are of the acknowledgement that is being processed.
  bool sampled_ = false;
  RateMark newest_{};
  Time send_interval_ = 0;
};
