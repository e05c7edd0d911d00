// Proportional rate reduction (RFC 9937, which follows RFC 6937): how a window comes down to ssthresh in step with what
// is delivered. It keeps what was delivered and sent since the reduction began.
#pragma once
#include <algorithm>
#include <cmath>

class ProportionalReduction {
 public:
  void begin(double window) {
    recover_fs_ = window;
    prr_delivered_ = prr_out_ = 0;
  }
  void on_sent() { prr_out_ += 1; }
  // The window after `newly_delivered` segments, not 0. One more may leave than arrived only while no loss is found.
  double window(double newly_delivered, double in_flight, double ssthresh, bool found_no_loss) {
    prr_delivered_ += newly_delivered;
    double send;
    if (in_flight > ssthresh) {
      send = std::ceil(ssthresh * prr_delivered_ / recover_fs_) - prr_out_;
    } else {
      const double as_delivered = std::max(prr_delivered_ - prr_out_, newly_delivered);
      send = std::min(ssthresh - in_flight, as_delivered + (found_no_loss ? 1 : 0));
    }
    return std::max(in_flight + std::max(send, prr_out_ > 0 ? 0.0 : 1.0), 1.0);
  }

 private:
  double recover_fs_ = 0, prr_delivered_ = 0, prr_out_ = 0;  // segments
};
