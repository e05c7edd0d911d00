// Loss detection without SACK: what duplicate acknowledgements tell, by their number (RFC 6582, RFC 5681).
#pragma once
#include <cstdint>

#include "tcp/loss_detection.hpp"

class DuplicateCount {
 public:
  enum class Tells : std::uint8_t { nothing, arrival, loss };

  // of_old: the first duplicates let no segment leave (RFC 3042 came later).
  explicit DuplicateCount(bool of_old) : of_old_(of_old) {}

  // A duplicate of an acknowledgement up to segment `first`.
  Tells hear(std::uint64_t first, bool recovering) {
    if (!recovering && first < careful_until_) return Tells::nothing;
    ++count_;
    if (recovering) return Tells::arrival;
    if (count_ == LossDetection::dup_thresh) return Tells::loss;
    return of_old_ ? Tells::nothing : Tells::arrival;
  }
  void forget() { count_ = 0; }
  // Segments that were sent again needlessly give duplicates, too. They show no loss (ns-2; RFC 6582, section 4.1).
  void be_careful(std::uint64_t until) { careful_until_ = of_old_ ? until : 0; }

 private:
  bool of_old_;
  std::uint64_t count_ = 0;
  std::uint64_t careful_until_ = 0;  // before it, duplicates mean nothing
};
