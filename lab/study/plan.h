// The models of a study: every encoder, and attention with every scheme, at equal numbers of parameters.
#ifndef HEED_LAB_STUDY_PLAN_H_
#define HEED_LAB_STUDY_PLAN_H_

#include <cstdint>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "lab/data/parts.h"
#include "lab/data/vocabulary.h"
#include "lab/runs/contest.h"
#include "lab/study/options.h"
#include "lab/study/study.h"
#include "lab/training/options.h"

namespace heed::lab {

// The largest share by which the parameters of two models may differ.
inline constexpr double kLargestDeviation = 0.05;

// The models of one objective, in the order of the options. The widths of their feed-forward sublayers are chosen so that each
// has the parameters of attention without positions and a feed-forward width of 4 * width. Throws InvalidArgument when the
// width leaves no such choice within kLargestDeviation.
Models PlanModels(const StudyOptions& options, Objective objective, const Vocabulary& vocabulary);

// How a model of the study is trained.
TrainOptions TrainingOf(const StudyOptions& options, Objective objective, const Trial& trial);

// The contest of one objective on the parts of a text, which, like the options, must outlive it. See StudyColumns, and
// TrainAndReport for `observe`.
Contest ContestOf(const TextParts& parts, StudyOptions& options, Objective objective, const ObserveModel& observe);

// Every option of a training, by the names of the command line.
nlohmann::ordered_json ToJson(const TrainOptions& options);

}  // namespace heed::lab

#endif  // HEED_LAB_STUDY_PLAN_H_
