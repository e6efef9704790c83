#include "lab/training/course.h"

#include <cmath>
#include <memory>
#include <vector>

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/nn/module.h>

#include "heed/error.h"
#include "lab/runs/contest.h"
#include "lab/training/interrupt.h"
#include "tests/error_text.h"

namespace heed::lab {
namespace {

// One number, drawn to 1 by training and to `best` by validation: what lies between is overfitting.
class OneNumber : public torch::nn::Module {
 public:
  OneNumber() { value = register_parameter("value", at::full({1}, 0.1)); }
  at::Tensor value;
};

class NumberLearner : public Learner {
 public:
  explicit NumberLearner(double best, int64_t breaks_at = -1) : best_(best), breaks_at_(breaks_at) {}
  torch::nn::Module& module() override { return number_; }
  at::Tensor NextLoss() override {
    const double broken = steps_++ == breaks_at_ ? NAN : 1.0;
    return (number_.value - 1).square().sum() * broken;
  }
  ValidationLoss Validate() override {
    EXPECT_FALSE(number_.is_training());
    const double loss = std::pow(number_.value.item<double>() - best_, 2);
    return {{loss, loss}, loss};
  }
  double loss_unit() const override { return 4; }
  OneNumber& number() { return number_; }

 private:
  double best_;
  int64_t steps_ = 0, breaks_at_;
  OneNumber number_;
};

TrainOptions WholeCourse(int64_t steps) {
  TrainOptions options;
  options.schedule = "free", options.steps = steps, options.warmup = 0, options.lr = 0.02, options.weight_decay = 0;
  return options;
}

TEST(Curve, PointsAreHalfDoublingsOfTheWholeBeforeAndBehindIt) {
  std::vector<int64_t> points;
  for (int64_t steps = 0; steps < 200;) points.push_back(steps = PointAfter(steps, 100));
  EXPECT_EQ(points, (std::vector<int64_t>{9, 13, 18, 25, 35, 50, 71, 100, 141, 200}));
  EXPECT_EQ(PointAfter(0, 3), 3);
  EXPECT_EQ(PointAfter(3, 3), 4);
  EXPECT_EQ(PointAfter(-1, 1), 1);
  // From any point the next is the same, so that a whole is met exactly.
  for (const int64_t whole : {7, 1000, 12345}) {
    int64_t steps = 0;
    while (steps < whole) steps = PointAfter(steps, whole);
    EXPECT_EQ(steps, whole);
    EXPECT_EQ(PointAfter(whole - 1, whole), whole);
  }
}

TEST(Curve, ForetellsByThePointHalfAsFarOfOddStepsToo) {
  for (const int64_t whole : {1000, 1029, 1031}) {
    std::vector<CurvePoint> curve;
    for (int64_t steps = 0; steps < whole;) {
      steps = PointAfter(steps, whole);
      curve.push_back({steps, 0, 10 / std::sqrt(static_cast<double>(steps))});
    }
    const double at_end = curve.back().validation;
    // A power law of the steps is foretold as it is, but for the rounding of half a step in a thousand.
    EXPECT_NEAR(Foretell(curve, 2 * whole)->loss, at_end / std::sqrt(2), 2e-3 * at_end) << whole;
    EXPECT_NEAR(Foretell(FirstPart(curve, 2), whole)->loss, at_end, 5e-3 * at_end) << whole;
    EXPECT_NEAR(Foretell(curve, 8 * whole)->loss, at_end / std::sqrt(8), 1e-2 * at_end) << whole;
    for (CurvePoint& point : curve) point.validation += 1;
    EXPECT_NEAR(Foretell(curve, 8 * whole)->loss, 1 + at_end / std::sqrt(8), 1e-2 * at_end) << "with a limit";
    const Foretold eight = *Foretell(curve, 8 * whole);
    EXPECT_NEAR(eight.error, kLawErrs * eight.gain, 1e-2 * at_end) << "the law missed nothing yet";
    curve.back().validation *= 2;
    EXPECT_NEAR(Foretell(curve, 2 * whole)->loss, 1 + at_end / std::sqrt(2), 2e-2 * at_end) << "one point may be chance";
    EXPECT_NEAR(Foretell(curve, 2 * whole)->error, 1 + at_end, 1e-2 * (1 + at_end)) << "as far as the half foretold less";
    (curve.end() - 2)->validation *= 2;
    EXPECT_EQ(Foretell(curve, 2 * whole)->gain, 0) << "past its best";
    EXPECT_EQ(Foretell(curve, whole)->error, 0) << "known";
  }
  EXPECT_FALSE(Foretell({}, 10));
  const std::vector<CurvePoint> one = {{8, 1, 1}};
  EXPECT_FALSE(Foretell(one, 16));
  EXPECT_FALSE(Foretell(FirstPart(one, 2), 8));
}

TEST(ProspectTest, TheErrorOfEitherCurveMayBringAModelAhead) {
  const std::vector<double> blocks = {1, 1}, weights = {1, 1};
  const double sure = MayEndAhead({{1.2, 0.1, 0}, blocks}, {{1.0, 0.1, 0}, blocks}, weights);
  EXPECT_NEAR(sure, -0.2 + 0.05, 1e-12) << "another seed alone";
  EXPECT_NEAR(MayEndAhead({{1.2, 0.1, 0.4}, blocks}, {{1.0, 0.1, 0}, blocks}, weights), -0.2 + std::hypot(0.05, 0.4), 1e-12);
  EXPECT_NEAR(MayEndAhead({{1.2, 0.1, 0}, blocks}, {{1.0, 0.1, 0.4}, blocks}, weights), -0.2 + std::hypot(0.05, 0.4), 1e-12);
}

TEST(CourseTest, KeepsTheBestStateAndEndsPastIt) {
  auto learner = std::make_unique<NumberLearner>(0.4);
  NumberLearner& inside = *learner;
  Course course(std::move(learner), WholeCourse(64));
  int64_t steps = 0;
  course.GoOn(1 << 20, {.on_step = [&](const FitStep&) { ++steps; }});
  EXPECT_TRUE(course.ended());
  const std::vector<CurvePoint>& curve = course.curve();
  EXPECT_EQ(steps, curve.back().steps);
  EXPECT_EQ(curve.back().steps, course.best().steps * 4) << "four half doublings brought nothing";
  for (const CurvePoint& point : curve) EXPECT_GE(point.validation, course.best().validation);
  EXPECT_EQ(course.best_blocks(), std::vector<double>(2, course.best().validation));
  EXPECT_NEAR(curve.front().training, 4 * 0.81, 0.5) << "in the unit of validation";
  course.AtBest([&] { EXPECT_EQ(inside.Validate().mean, course.best().validation); });
  EXPECT_NE(std::pow(inside.number().value.item<double>() - 0.4, 2), course.best().validation)
      << "training goes on from its own";
}

TEST(CourseTest, WhatIsAskedInPiecesIsTheSameAsAtOnce) {
  Course pieces(std::make_unique<NumberLearner>(2.0), WholeCourse(64)),
      whole(std::make_unique<NumberLearner>(2.0), WholeCourse(64));
  for (const int64_t steps : {16, 32, 64, 128}) {
    pieces.GoOn(steps);
    pieces.AtBest([] {});
  }
  whole.GoOn(128);
  ASSERT_EQ(pieces.curve().size(), whole.curve().size());
  for (std::size_t i = 0; i < whole.curve().size(); ++i) {
    EXPECT_EQ(pieces.curve()[i].validation, whole.curve()[i].validation);
    EXPECT_EQ(pieces.curve()[i].training, whole.curve()[i].training);
  }
  EXPECT_EQ(whole.best().steps, 128);
  EXPECT_FALSE(whole.ended());
}

TEST(CourseTest, DivergenceEndsItAtItsBestStateWhereThereIsOne) {
  Course late(std::make_unique<NumberLearner>(2.0, 40), WholeCourse(64));
  late.GoOn(64);
  EXPECT_TRUE(late.ended());
  EXPECT_EQ(late.best().steps, 32);
  Course early(std::make_unique<NumberLearner>(2.0, 3), WholeCourse(64));
  EXPECT_THROW(early.GoOn(64), Divergence);
}

TEST(CourseTest, NeedsTheScheduleThatHasNoLastStep) {
  TrainOptions options = WholeCourse(64);
  options.schedule = "cosine";
  EXPECT_TRUE(Holds(WhatOf<InvalidArgument>([&] { Course(std::make_unique<NumberLearner>(2.0), options); }), "schedule"));
}

}  // namespace
}  // namespace heed::lab
