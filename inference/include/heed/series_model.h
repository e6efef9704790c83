// A model of labelled sequences that `heed study` or `heed train` kept, without a framework: raw numbers in, probabilities or
// values in the target's own units out.
#ifndef HEED_SERIES_MODEL_H_
#define HEED_SERIES_MODEL_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "heed/executor.h"
#include "heed/model_workspace.h"
#include "heed/series_form.h"
#include "heed/view.h"

namespace heed {

// Sequences as they were measured, any strides.
struct SeriesInput {
  // [rows, steps, form.columns()]: the form's features, NaN where one of form.marks.gaps lacks a value, whose last one then
  // stands for it; behind them of each column of text the index of its category (SeriesMarks::Category), or NaN for none.
  View<const double, 3> features;
  View<const double, 2> times = {};     // [rows, steps], ascending, of a form that has times alone; dates in seconds since 1970
  View<const int64_t, 1> lengths = {};  // [rows], 1 to steps; absent: all steps count. What stands behind them is not read
  // [rows, steps], the target's own values: of a forecast alone, and there only where the target is none of its features.
  View<const double, 2> target = {};
};

// All of shape [rows, answered, outputs]: `answered` is the steps where each step has an answer, else 1; `outputs` are the
// probabilities of the classes, or one value, or a forecast's values one, two, .. steps behind the last. Behind a row's length
// there are zeros.
struct SeriesAnswers {
  View<double, 3> values;
  // Where 80 % of the true values of the validation and the test part lay around the answers; absent where not wanted, and for
  // classes.
  View<double, 3> low = {}, high = {};
};

// Reading a model is safe from several threads at once.
class SeriesModel {
 public:
  // folder: holds config.json and model.safetensors, whose weights of 64 and 16 bits are rounded to float once. Throws
  // FileError that names the file and what is wrong with it: another format, a field of another kind, sizes that contradict
  // each other or the weights, weights that are not finite.
  explicit SeriesModel(const std::string& folder);
  ~SeriesModel();
  SeriesModel(SeriesModel&&) noexcept;

  // Whether the folder's config.json is of such a model, and not of a language model. Throws FileError.
  static bool IsIn(const std::string& folder);

  const std::string& name() const { return name_; }  // "GRU", "ridge regression"
  const SeriesForm& form() const { return form_; }
  // The answers that a sequence of so many steps has.
  int64_t Answered(int64_t steps) const { return form_.Answered(steps); }

  // What `heed predict` says of the same sequences. Of long ones the last form().steps() steps are read, and where each step
  // has an answer all of them, so many at a time. In float, classes' probabilities and units in double. A row's bits do not
  // depend on the other rows, nor on the number of threads, nor on the processor (docs/numerics.md, "Bits"), with two
  // exceptions: beside a row of more than 16,384 steps the self-attentive encoder without causality sums in another order, and
  // a calendar learns from all rows of a call how a distance from its curve fades, as `heed predict` does from all sequences of
  // a file. Methods that look back (a season ago, Holt-Winters, a calendar) read every step of a row. Once a call has been
  // made, others that need no more memory allocate none, beside what the engine makes ready of times and of schemes that are
  // programs (kerple, sandwich, fire, temperature, sinusoidal_bias).
  //
  // Throws InvalidArgument that names the argument and the place, before anything is written: shapes, numbers that are not
  // finite or too large to compute with, times that do not ascend, pasts that are too short for a method, values without the
  // logarithms that it needs. Throws Error where an answer is not finite; answers then hold any numbers.
  void Predict(const SeriesInput& input, const SeriesAnswers& answers, ModelWorkspace& workspace, Executor& executor) const;
  void Predict(const SeriesInput& input, const SeriesAnswers& answers) const;

  class Answerer;  // a network, or a method

 private:
  void CheckShapes(const SeriesInput& input, const SeriesAnswers& answers) const;

  std::string name_;
  SeriesForm form_;
  std::vector<double> low_, high_;  // beside the answers, by output; empty for classes
  std::unique_ptr<Answerer> answerer_;
};

}  // namespace heed

#endif  // HEED_SERIES_MODEL_H_
