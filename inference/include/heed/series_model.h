// A model of labelled sequences that `heed study` or `heed train` saved, without a framework: raw numbers in, probabilities or
// values in the target's units out.
#ifndef HEED_SERIES_MODEL_H_
#define HEED_SERIES_MODEL_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "heed/executor.h"
#include "heed/model_workspace.h"
#include "heed/safetensors.h"
#include "heed/series_form.h"
#include "heed/view.h"

namespace heed {

// Sequences in their original units, any strides.
struct SeriesInput {
  // [rows, steps, form.columns()]: the form's features, NaN where one of form.marks.gaps lacks a value, which its last value
  // replaces; then for each text column the index of its category (SeriesMarks::Category), or NaN for none.
  View<const double, 3> features;
  View<const double, 2> times = {};     // [rows, steps], ascending, only for a form with times; dates in seconds since 1970
  View<const int64_t, 1> lengths = {};  // [rows], 1 to steps; absent: all. A call does not read later steps
  // [rows, steps], past values of the target: only for a forecast whose target is none of its features.
  View<const double, 2> target = {};
};

// All of shape [rows, answered, outputs]: `answered` is the steps if each step has an answer, else 1; `outputs` are the
// probabilities of the classes, one value, or the forecasts for 1, 2, .. steps after the last. Zeros after a row's
// length.
struct SeriesAnswers {
  View<double, 3> values;
  // The interval that held 80 % of the true values of the validation and the test part; absent if not wanted, and for classes.
  View<double, 3> low = {}, high = {};
};

// An array of a kept method: numbers of this type, row by row, as model.safetensors holds them; the bytes are the caller's.
struct KeptArray {
  ElementType type = ElementType::kFloat64;
  std::vector<int64_t> shape = {};
  std::string_view bytes = {};
};

class ConfigReader;

// Several threads may use a model at once.
class SeriesModel {
 public:
  // folder: holds config.json and model.safetensors, whose weights of 64 and 16 bits are rounded to float once. Throws
  // FileError, naming the file and the fault: another format, a field of another kind, sizes that contradict each other or the
  // weights, weights that are not finite.
  explicit SeriesModel(const std::string& folder);
  // The same of a method, not a network, from the text of config.json and the arrays of model.safetensors by their names.
  SeriesModel(const std::string& config, std::map<std::string, KeptArray> arrays);
  ~SeriesModel();
  SeriesModel(SeriesModel&&) noexcept;

  // Whether the folder's config.json describes such a model, not a language model. Throws FileError.
  static bool IsIn(const std::string& folder);

  const std::string& name() const { return name_; }  // "GRU", "ridge regression"
  const SeriesForm& form() const { return form_; }
  // The number of answers for a sequence of `steps` steps.
  int64_t Answered(int64_t steps) const { return form_.Answered(steps); }

  // The answers of `heed predict` for the same sequences. A network reads the last form().steps() steps of long sequences; if
  // each step has an answer, it reads all steps, so many at a time. Methods that look back (a season ago, Holt-Winters, a
  // calendar) read every step. Computes in float, class probabilities and units in double.
  //
  // A row's bits depend neither on the other rows, nor on the number of threads, nor on the processor (docs/numerics.md,
  // "Bits"), with two exceptions. Among rows of more than 16,384 steps the self-attentive encoder without causality sums in
  // another order. A calendar learns from all rows of a call how a distance from its curve decays, as `heed predict` does from
  // all sequences of a file. A call that needs no more memory than an earlier one allocates none, except in the engine for
  // times and for schemes that are programs (kerple, sandwich, fire, temperature, sinusoidal_bias).
  //
  // Throws InvalidArgument, naming the argument and the place, before it writes anything, for other shapes, numbers that are
  // not finite or too large to compute with, times that do not ascend, pasts that are too short for a method, and values whose
  // logarithms a method needs and that are not positive. Throws Error where an answer is not finite; answers are then
  // unspecified.
  void Predict(const SeriesInput& input, const SeriesAnswers& answers, ModelWorkspace& workspace, Executor& executor) const;
  void Predict(const SeriesInput& input, const SeriesAnswers& answers) const;

  class Answerer;  // a network, or a method

 private:
  template <class Read>
  void Open(const ConfigReader& config, const Read& read);
  void CheckShapes(const SeriesInput& input, const SeriesAnswers& answers) const;

  std::string name_;
  SeriesForm form_;
  std::vector<double> low_, high_;  // distances from the answers, by output; empty for classes
  std::unique_ptr<Answerer> answerer_;
};

// The form in the text of a config.json. Throws FileError as the constructor does.
SeriesForm ReadForm(const std::string& config);

}  // namespace heed

#endif  // HEED_SERIES_MODEL_H_
