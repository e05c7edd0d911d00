// Congestion controls for the subflows of one flow: together they take no more of a bottleneck than one TCP would, and
// they move away from congested paths. Growth is coupled. Slow start is Reno's, and so is halving, except Balia's.
#pragma once
#include <memory>
#include <vector>

#include "congestion/control_context.hpp"
#include "congestion/reno.hpp"

// What the subflows of one flow know of each other.
struct Coupling {
  struct Subflow {
    double window = 0, round_trip_s = 0;        // 0 before the first sample
    double since_loss = 0, between_losses = 0;  // segments acknowledged
  };
  std::vector<Subflow> subflows;
};

class Coupled : public Reno {
 public:
  explicit Coupled(const ControlContext& context) : coupling_(context.coupling), place_(context.place) {
    if (coupling_->subflows.size() <= place_) coupling_->subflows.resize(place_ + 1);
  }

  void on_delivery(CongestionWindow& window, const Delivery& delivery) override {
    Coupling::Subflow& own = coupling_->subflows[place_];
    own.window = window.segments;
    own.since_loss += delivery.segments;
    if (delivery.round_trip > 0) {
      const double sample_s = to_seconds(delivery.round_trip);
      own.round_trip_s += own.round_trip_s == 0 ? sample_s : (sample_s - own.round_trip_s) / 8;
    }
  }
  void grow(CongestionWindow& window, const Delivery& delivery) override {
    if (!delivery.window_limited) return;
    double left = delivery.segments;
    if (window.in_slow_start()) left = window.slow_start(left);
    if (left > 0) window.segments = std::max(1.0, window.segments + left * increase());
    coupling_->subflows[place_].window = window.segments;
  }
  double ssthresh_after_loss(const CongestionWindow& window) override {
    Coupling::Subflow& own = coupling_->subflows[place_];
    own.between_losses = own.since_loss;
    own.since_loss = 0;
    own.window = window.segments;  // decrease() takes this subflow's rate from it
    own.window = std::max(window.segments * (1 - decrease()), 2.0);
    return own.window;
  }

 protected:
  // By how many segments the window grows for each acknowledged one.
  virtual double increase() const = 0;
  // Share of the window that a loss takes.
  virtual double decrease() const { return 0.5; }

  // Window over round trip, in segments a second; a subflow without a sample does not count yet.
  static double rate(const Coupling::Subflow& subflow) {
    return subflow.round_trip_s > 0 ? subflow.window / subflow.round_trip_s : 0;
  }
  double total_rate() const {
    double sum = 0;
    for (const Coupling::Subflow& subflow : coupling_->subflows) sum += rate(subflow);
    return sum;
  }

  std::shared_ptr<Coupling> coupling_;
  std::uint32_t place_;
};

// RFC 6356, sections 3 and 4.
class Lia : public Coupled {
 public:
  using Coupled::Coupled;

 protected:
  double increase() const override {
    double best = 0, total = 0;
    for (const Coupling::Subflow& subflow : coupling_->subflows)
      if (subflow.round_trip_s > 0) {
        best = std::max(best, subflow.window / (subflow.round_trip_s * subflow.round_trip_s));
        total += subflow.window;
      }
    const double own = 1 / coupling_->subflows[place_].window, rate = total_rate();
    // alpha/total, alpha = total best/rate^2
    return total == 0 ? own : std::min(best / (rate * rate), own);
  }
};

// Khalili et al. (CoNEXT 2012): the Pareto-optimal variant. It moves windows to the best paths that have small ones.
class Olia : public Coupled {
 public:
  using Coupled::Coupled;

 protected:
  double increase() const override {
    const std::vector<Coupling::Subflow>& all = coupling_->subflows;
    const Coupling::Subflow& own = all[place_];
    if (own.round_trip_s == 0) return 1 / own.window;
    double largest = 0, best = 0;
    for (const Coupling::Subflow& subflow : all) {
      largest = std::max(largest, subflow.window);
      best = std::max(best, quality(subflow));
    }
    std::size_t count = 0, largest_count = 0, neglected = 0;  // neglected: best, and without the largest window
    for (const Coupling::Subflow& subflow : all) {
      count += subflow.round_trip_s > 0;
      largest_count += subflow.window == largest;
      neglected += quality(subflow) == best && subflow.window < largest;
    }
    double shift = 0;
    if (neglected > 0) {
      const auto share = [&](std::size_t among) {
        return 1 / (static_cast<double>(count) * static_cast<double>(among));
      };
      if (own.window == largest)
        shift = -share(largest_count);
      else if (quality(own) == best)
        shift = share(neglected);
    }
    const double rate = total_rate();
    return own.window / (own.round_trip_s * own.round_trip_s) / (rate * rate) + shift / own.window;
  }

 private:
  static double quality(const Coupling::Subflow& subflow) {
    if (subflow.round_trip_s == 0) return 0;
    const double interval = std::max(subflow.since_loss, subflow.between_losses);
    return interval * interval / subflow.round_trip_s;
  }
};

// Peng, Walid, Hwang and Low (IEEE/ACM ToN 24(1), 2016; draft-walid-mptcp-congestion-control): it is between LIA's
// friendliness and OLIA's speed. A subflow slower than the fastest one grows faster for its rate, and loses more.
class Balia : public Coupled {
 public:
  using Coupled::Coupled;

 protected:
  double increase() const override {
    const double own = rate(coupling_->subflows[place_]), best = fastest(), total = total_rate();
    // own/(round trip total^2) (1 + alpha)/2 (4 + alpha)/5 with alpha = best/own
    const double share = own == 0 ? 1 : (own + best) / total * ((4 * own + best) / (10 * total));
    return share / coupling_->subflows[place_].window;
  }
  double decrease() const override {
    const double own = rate(coupling_->subflows[place_]);
    return own == 0 ? 0.5 : std::min(fastest() / own, 1.5) / 2;
  }

 private:
  double fastest() const {
    double most = 0;
    for (const Coupling::Subflow& subflow : coupling_->subflows) most = std::max(most, rate(subflow));
    return most;
  }
};
