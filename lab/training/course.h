// A training that can go on at any time, is measured on its way, and of which the best state counts.
#ifndef HEED_LAB_TRAINING_COURSE_H_
#define HEED_LAB_TRAINING_COURSE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include "lab/training/curve.h"
#include "lab/training/fit.h"
#include "lab/training/optimizer.h"
#include "lab/training/options.h"

namespace heed::lab {

// On the part of the data by which choices are made.
struct ValidationLoss {
  std::vector<double> blocks;  // of each block of the data
  double mean = 0;             // over all predictions
};

// A model with the data that it learns from.
class Learner {
 public:
  virtual ~Learner() = default;

  virtual torch::nn::Module& module() = 0;
  // The loss of the next batch. The same learner with the same seed sees the same batches.
  virtual at::Tensor NextLoss() = 0;
  // What one of these losses is in the unit of Validate.
  virtual double loss_unit() const { return 1; }
  // With the model as it is, in evaluation mode. Throws Divergence where it is not finite, and Interruption on Ctrl-C.
  virtual ValidationLoss Validate() = 0;
};

// The learner's loss on the validation part is taken at the points of PointAfter, where options.steps are the whole, and the
// weights that had the least are kept. A course ends, whatever it is asked for, where PastItsBest says so, and where it
// diverges after a first point.
class Course {
 public:
  // options.schedule must be "free", which has no last step: InvalidArgument.
  Course(std::unique_ptr<Learner> learner, const TrainOptions& options);

  // Until so many steps, one of the points, are done in all. Throws Divergence where there is no state to keep, and
  // Interruption on Ctrl-C.
  void GoOn(int64_t steps, const FitHooks& hooks = {});
  const std::vector<CurvePoint>& curve() const { return curve_; }
  bool ended() const { return ended_; }
  // Calls `measure` with the best weights in the model, which is in evaluation mode. There must be a point.
  void AtBest(const std::function<void()>& measure);
  const CurvePoint& best() const { return curve_[best_]; }
  const NamedTensors& parameters() const { return optimizer_.parameters(); }
  const std::vector<double>& best_blocks() const { return best_blocks_; }  // its losses on those of the validation part

 private:
  void Measure();

  std::unique_ptr<Learner> learner_;
  TrainOptions options_;
  AdamW optimizer_;
  int64_t step_ = 0;
  double loss_sum_ = 0;  // over the steps since the last point
  bool ended_ = false;
  std::vector<CurvePoint> curve_;
  std::size_t best_ = 0;
  std::vector<at::Tensor> best_weights_;
  std::vector<double> best_blocks_;
};

// This thread's own seconds in a step of such a course, see MedianSeconds.
double StepSeconds(Learner& learner, const TrainOptions& options);

}  // namespace heed::lab

#endif  // HEED_LAB_TRAINING_COURSE_H_
