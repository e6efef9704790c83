// What the runs of a study say together.
#ifndef HEED_LAB_STUDY_MEASUREMENTS_H_
#define HEED_LAB_STUDY_MEASUREMENTS_H_

#include <cstddef>
#include <string>
#include <vector>

#include "lab/data/baselines.h"
#include "lab/runs/spread.h"
#include "lab/study/run.h"

namespace heed::lab {

struct ModelResult {
  StudyModel model;
  std::vector<StudyRun> runs;  // by seed, at least one

  // `length` is an index of kLengthMultiples.
  bool Reaches(std::size_t length) const;
  Spread Loss(std::size_t length = 0) const;  // needs Reaches
  Spread TokensPerSecond() const;
};

// How much more b loses than a at the training length. Runs of one seed saw the same training text, so they are compared
// seed by seed; what differs from seed to seed alike for both cancels.
struct Gap {
  Spread loss;
  bool agreed = false;  // every one of several seeds has the same sign
};
Gap GapBetween(const ModelResult& a, const ModelResult& b, std::size_t length = 0);

// Those that reach the length, the smallest mean loss first. The pointers point into `models`.
std::vector<const ModelResult*> Ranked(const std::vector<ModelResult>& models, std::size_t length = 0);
std::vector<const ModelResult*> Ranked(std::vector<ModelResult>&& models, std::size_t length = 0) = delete;

// The part of the models that attend, in order.
std::vector<ModelResult> Attending(const std::vector<ModelResult>& models);
// The best attention (by the training length), then every other encoder, in order.
std::vector<ModelResult> OnePerEncoder(const std::vector<ModelResult>& models);

}  // namespace heed::lab

#endif  // HEED_LAB_STUDY_MEASUREMENTS_H_
