// Predicts longer trainings from the curves of a contest.
#ifndef HEED_LAB_RUNS_OUTLOOK_H_
#define HEED_LAB_RUNS_OUTLOOK_H_

#include <cstddef>
#include <optional>
#include <vector>

#include <nlohmann/json.hpp>

#include "lab/runs/contest.h"

namespace heed::lab {

constexpr double kFurthest = 8;  // times as long as the trainings that ran: as far as curves foretell anything

struct Outlook {
  struct Expected {
    std::size_t contender;  // index of its entry
    double loss;            // on the validation part
    double gain;            // how far that is below its least loss so far; 0 where more training harms
  };

  double times = 1;                     // as long as the trainings that ran
  std::vector<Expected> expected = {};  // the least loss first; without those that were stopped or diverged
  // How far off the same law was at most when it foretold the ends of these curves from the first 1/times of each; NaN where
  // all are too short to tell.
  double missed = 0;

  // Those that are expected within `missed` of the first, which is among them.
  std::vector<std::size_t> Near() const;
};

// By Foretell. times: more than 1.
Outlook OutlookOf(const ContestResult& result, double times);

// A model that loses less than a method without training once it has trained for longer.
struct Overtaking {
  std::size_t contender;  // index of its entry
  double times;           // as long as the trainings that ran
  double loss;            // on the test part, by then
};
// Where the model that is taken is behind a method without training: the model, stopped or not, that would lose the least after
// kFurthest times the steps, if that may be less than the method loses: by its curve, or as far below as the curve may be off,
// but not below half of the predicted loss. The times are the fewest of 2, 4 and 8 that are expected to do.
std::optional<Overtaking> MayOvertake(const ContestResult& result, const Compared& with_method);

nlohmann::ordered_json ToJson(const Outlook& outlook, const ContestResult& result);

}  // namespace heed::lab

#endif  // HEED_LAB_RUNS_OUTLOOK_H_
