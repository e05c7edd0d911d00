// SUSS (Arghavani et al., SIGCOMM 2024): CUBIC whose slow start multiplies the window by four instead of two in the
// first rounds, where the acknowledgements of a round came soon and without delay. The second half of what it sends is
// paced over most of the round trip, after a guard interval. Acknowledgements of that half do not make the window grow.
// Names are the paper's: the blue part of a round is clocked by acknowledgements, the red part is paced.
#pragma once
#include "congestion/control_context.hpp"
#include "congestion/cubic.hpp"

class Suss : public Cubic {
 public:
  explicit Suss(const ControlContext& context);
  void on_delivery(CongestionWindow& window, const Delivery& delivery) override;
  void grow(CongestionWindow& window, const Delivery& delivery) override;
  void on_sent(CongestionWindow& window, std::uint64_t next, Time now) override;
  double ssthresh_after_loss(const CongestionWindow& window) override {
    give_up();
    return Cubic::ssthresh_after_loss(window);
  }
  void on_timeout() override {
    give_up();
    Cubic::on_timeout();
  }

 private:
  // guarding: the blue part is being sent, or about to be; the red part begins after the guard interval. off: only
  // CUBIC is left.
  enum class Mode : std::uint8_t { clocked, guarding, pacing, off };
  enum class Colour : std::uint8_t { blue, last_blue, red };

  void give_up() { mode_ = Mode::off, off_by_now_ = true; }
  void stop(CongestionWindow& window, const Delivery& delivery);
  void take_round(CongestionWindow& window, const Delivery& delivery);
  void plan_red(const CongestionWindow& window, const Delivery& delivery, double blue, Time train);
  void begin_red(CongestionWindow& window);
  bool may_quadruple(Time train);

  double initial_window_;
  int most_rounds_;
  bool guards_, paces_;

  Mode mode_ = Mode::clocked;
  bool off_by_now_ = false;
  int round_ = 1, smallest_in_round_ = 1, paced_rounds_ = 0;
  std::uint64_t head_ = 0, tail_;  // of what was sent in this round: the first segment, and one beyond the blue part
  Time round_start_ = 0;
  Colour colour_ = Colour::red;
  double blue_acknowledged_ = 0;
  bool quadruples_ = true;  // once false, it stays so
  Time train_before_ = 0;   // how long the blue acknowledgements of the last round took
  double limit_ = 0;        // of the window, while it paces
  Time red_from_ = 0;
  Time interval_ = 0;  // between red segments
  double cap_ = 0;     // of the window, once acknowledgements have come for long enough; 0 before
};
