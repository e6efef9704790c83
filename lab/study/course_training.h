// A learner's course as a training of a contest.
#ifndef HEED_LAB_STUDY_COURSE_TRAINING_H_
#define HEED_LAB_STUDY_COURSE_TRAINING_H_

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "heed/nn/safetensors.h"
#include "lab/report/file.h"
#include "lab/runs/contest.h"
#include "lab/training/course.h"

namespace heed::lab {

class CourseTraining : public Training {
 public:
  // `measure` yields what is measured on the test part of the learner's model as it then is.
  CourseTraining(std::unique_ptr<Learner> learner, const TrainOptions& options, std::function<Outcome()> measure)
      : course_(std::move(learner), options), measure_(std::move(measure)) {}

  Outcome Reach(int64_t steps, const OnStep& on_step) override {
    course_.GoOn(steps, {.on_step = [&](const FitStep&) { on_step(); }});
    return OnItsWay();
  }

  Outcome Report() override {
    Outcome outcome;
    course_.AtBest([&] { outcome = measure_(); });
    Outcome way = OnItsWay();
    outcome.values.push_back(way.values.front());
    outcome.validation = std::move(way.validation), outcome.curve = std::move(way.curve), outcome.best_steps = way.best_steps;
    return outcome;
  }

  void Keep(const std::filesystem::path& path) override {
    std::map<std::string, at::Tensor> weights;
    for (const auto& [name, parameter] : course_.parameters()) weights.emplace(name, parameter.detach());
    MakeFolderOf(path);
    course_.AtBest([&] { nn::WriteSafetensors(path.string(), weights, {{"format", "pt"}}); });
  }

 private:
  Outcome OnItsWay() const {
    const CurvePoint& best = course_.best();
    return {
        .values = {best.validation}, .validation = course_.best_blocks(), .curve = course_.curve(), .best_steps = best.steps};
  }

  Course course_;
  std::function<Outcome()> measure_;
};

}  // namespace heed::lab

#endif  // HEED_LAB_STUDY_COURSE_TRAINING_H_
