// Proportional rate reduction (RFC 9937, which follows RFC 6937): how a window comes down to the threshold in step with
// what is delivered. It owns what was delivered and sent since the reduction began.
#pragma once
#include <algorithm>
#include <cmath>

class ProportionalReduction {
 public:
  void begin(double window) {
    before_ = window;
    delivered_ = sent_ = 0;
  }
  void on_sent() { sent_ += 1; }
  // The window after `newly_delivered` segments, not 0. One more than was delivered only while nothing else is lost.
  double window(double newly_delivered, double in_flight, double threshold, bool found_no_loss) {
    delivered_ += newly_delivered;
    double send;
    if (in_flight > threshold) {
      send = std::ceil(threshold * delivered_ / before_) - sent_;
    } else {
      const double as_delivered = std::max(delivered_ - sent_, newly_delivered);
      send = std::min(threshold - in_flight, as_delivered + (found_no_loss ? 1 : 0));
    }
    return std::max(in_flight + std::max(send, sent_ > 0 ? 0.0 : 1.0), 1.0);
  }

 private:
  double before_ = 0, delivered_ = 0, sent_ = 0;  // segments
};
