// A contender that trains at one rate with one seed.
#ifndef HEED_LAB_RUNS_LANE_H_
#define HEED_LAB_RUNS_LANE_H_

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "lab/runs/contest.h"
#include "lab/runs/measurements.h"
#include "lab/training/curve.h"

namespace heed::lab {

struct Lane {
  std::size_t entry;
  double rate;
  uint64_t seed;
  int64_t reached = 0;                   // steps
  Outcome outcome{};                     // after them
  std::unique_ptr<Training> training{};  // none where the outcome was kept by an earlier process

  bool Diverged() const { return !outcome.diverged.empty(); }
  double Validation() const {
    double least = NAN;
    for (const CurvePoint& point : outcome.curve) least = std::fmin(least, point.validation);
    return Diverged() ? NAN : least;
  }
};

}  // namespace heed::lab

#endif  // HEED_LAB_RUNS_LANE_H_
