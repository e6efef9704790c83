// Predicts longer trainings from the curves of a contest.
#ifndef HEED_LAB_RUNS_OUTLOOK_H_
#define HEED_LAB_RUNS_OUTLOOK_H_

#include <cstddef>
#include <vector>

#include <nlohmann/json.hpp>

#include "lab/runs/contest.h"

namespace heed::lab {

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

nlohmann::ordered_json ToJson(const Outlook& outlook, const ContestResult& result);

}  // namespace heed::lab

#endif  // HEED_LAB_RUNS_OUTLOOK_H_
