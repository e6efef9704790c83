#include "heed/series_model.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "config_reader.h"
#include "heed/error.h"
#include "series/answerer.h"
#include "series/windows.h"
#include "shape_text.h"

namespace heed {
namespace {

constexpr int64_t kFormatOfSeries = 1;
constexpr int64_t kStepsAtOnce = 8192;  // which bounds the memory of a call

const char kKind[] = "table";

// Logits, or logarithms of probabilities, become probabilities.
void Softmax(double* logits, int64_t count) {
  const double largest = *std::max_element(logits, logits + count);
  double sum = 0;
  for (int64_t c = 0; c < count; ++c) sum += std::exp(logits[c] - largest);
  const double normaliser = largest + std::log(sum);
  for (int64_t c = 0; c < count; ++c) logits[c] = std::exp(logits[c] - normaliser);
}

void RequireShape(const char* name, const View<double, 3>& view, const std::array<int64_t, 3>& expected) {
  if (view.extent != expected)
    throw InvalidArgument(std::string(name) + ": expected " + ShapeText(expected) + ", got " + ShapeText(view.extent));
  if (view.size() > 0 && !view.present()) throw InvalidArgument(std::string(name) + ": no memory behind it");
}

}  // namespace

SeriesModel::SeriesModel(const std::string& folder) {
  const std::string weights_path = folder + "/model.safetensors";
  const ConfigReader config(folder + "/config.json");
  config.Integer(config.file(), "format", kFormatOfSeries, kFormatOfSeries);
  if (config.Text(config.file(), "kind") != kKind) config.Fail("'kind' is not \"table\"");
  name_ = config.Text(config.file(), "name");
  const ConfigReader::Json& form = config.Object(config.file(), "form");
  VisitFields(form_, [&](const char* name, auto& field) {
    if (!MayLack(name) || ConfigReader::Has(form, name)) config.Read(form, name, field);
  });
  low_ = config.Numbers(config.file(), "low"), high_ = config.Numbers(config.file(), "high");
  try {
    Validate(form_);
    const auto intervals = static_cast<std::size_t>(form_.Classifies() ? 0 : form_.outputs());
    if (low_.size() != intervals || high_.size() != intervals)
      config.Fail("'low' and 'high': expected " + std::to_string(intervals) + " numbers each");
    const bool network = ConfigReader::Has(config.file(), "network");
    answerer_ = network ? ReadNetwork(config, weights_path, form_) : ReadMethod(config, weights_path, form_);
  } catch (const InvalidArgument& error) {
    config.Fail(error.what());
  }
}

SeriesModel::~SeriesModel() = default;
SeriesModel::SeriesModel(SeriesModel&&) noexcept = default;

bool SeriesModel::IsIn(const std::string& folder) {
  const ConfigReader config(folder + "/config.json");
  const auto found = config.file().find("kind");
  return found != config.file().end() && *found == kKind;
}

void SeriesModel::CheckShapes(const SeriesInput& input, const SeriesAnswers& answers) const {
  const auto& extent = input.features.extent;
  if (extent[0] < 0 || extent[1] < 1 || extent[2] != form_.columns())
    throw InvalidArgument("features: expected [rows, steps, " + std::to_string(form_.columns()) +
                          "] with at least one step, got " + ShapeText(extent));
  if (input.features.size() > 0 && !input.features.present()) throw InvalidArgument("features: no memory behind it");
  const std::array<int64_t, 2> places{extent[0], extent[1]};
  if (form_.has_times != input.times.present() || (form_.has_times && input.times.extent != places))
    throw InvalidArgument(form_.has_times ? "times: expected " + ShapeText(places) + ", got " + ShapeText(input.times.extent)
                                          : "times: expected none, as the model knows the order of steps alone");
  const std::array<int64_t, 1> rows{extent[0]};
  if (input.lengths.present() && input.lengths.extent != rows)
    throw InvalidArgument("lengths: expected " + ShapeText(rows) + ", got " + ShapeText(input.lengths.extent));
  if (input.last.present() && input.last.extent != rows)
    throw InvalidArgument("last: expected " + ShapeText(rows) + ", got " + ShapeText(input.last.extent));
  for (int64_t row = 0; row < extent[0]; ++row) {
    const int64_t length = LengthOf(input, row);
    if (length < 1 || length > extent[1])
      throw InvalidArgument("lengths: row " + std::to_string(row) + ": expected 1 to " + std::to_string(extent[1]) + ", got " +
                            std::to_string(length));
    if (length < answerer_->LeastSteps())
      throw InvalidArgument("features: row " + std::to_string(row) + " has " + std::to_string(length) + " steps; " + name_ +
                            " forecasts from " + std::to_string(answerer_->LeastSteps()));
  }
  const std::array<int64_t, 3> expected{extent[0], Answered(extent[1]), form_.outputs()};
  RequireShape("values", answers.values, expected);
  for (const auto& [name, view] : {std::pair("low", &answers.low), {"high", &answers.high}}) {
    if (!view->present()) continue;
    if (form_.Classifies()) throw InvalidArgument(std::string(name) + ": expected none, as classes have probabilities");
    RequireShape(name, *view, expected);
  }
}

namespace {

// Puts the answers of windows where they belong.
class AnswerPlaces {
 public:
  AnswerPlaces(const SeriesForm& form, const SeriesInput& input, const SeriesAnswers& answers, const std::vector<double>& low,
               const std::vector<double>& high)
      : form_(form), input_(input), answers_(answers), low_(low), high_(high) {}

  // `answer`, [outputs], is that of a step of a window, from 0, or of all of it.
  void Put(const SeriesWindow& window, int64_t step, double* answer) const {
    const int64_t outputs = form_.outputs();
    if (!std::all_of(answer, answer + outputs, [](double number) { return std::isfinite(number); }))
      throw Error("model: its answers to row " + std::to_string(window.row) +
                  " are not all finite; its weights are damaged, or its training left the finite numbers");
    if (form_.Classifies()) Softmax(answer, outputs);
    const double base = form_.Classifies() ? 0 : form_.Forecasts() ? LastTarget(form_, input_, window.row) : form_.target_mean;
    const int64_t place = form_.each_step && !form_.Forecasts() ? window.first + step : 0;
    for (int64_t o = 0; o < outputs; ++o) {
      const double value = form_.Classifies() ? answer[o] : answer[o] * form_.target_scale + base;
      answers_.values(window.row, place, o) = value;
      if (answers_.low.present()) answers_.low(window.row, place, o) = value + low_[o];
      if (answers_.high.present()) answers_.high(window.row, place, o) = value + high_[o];
    }
  }

  // Zeros behind a row's length.
  void Clear(int64_t row) const {
    for (const View<double, 3>* view : {&answers_.values, &answers_.low, &answers_.high}) {
      for (int64_t i = LengthOf(input_, row); view->present() && i < view->extent[1]; ++i) {
        for (int64_t o = 0; o < view->extent[2]; ++o) (*view)(row, i, o) = 0;
      }
    }
  }

 private:
  const SeriesForm& form_;
  const SeriesInput& input_;
  const SeriesAnswers& answers_;
  const std::vector<double>&low_, &high_;
};

}  // namespace

void SeriesModel::Predict(const SeriesInput& input, const SeriesAnswers& answers, ModelWorkspace& workspace,
                          Executor& executor) const {
  CheckShapes(input, answers);
  CheckNumbers(form_, input);
  const ModelWorkspace::Frame frame(workspace);
  const AnswerPlaces places(form_, input, answers, low_, high_);
  const int64_t at_once = std::max<int64_t>(1, kStepsAtOnce / form_.steps()), outputs = form_.outputs();
  auto* const windows = workspace.Take<SeriesWindow>(at_once);
  int64_t count = 0;
  const auto answer = [&] {
    const ModelWorkspace::Frame own(workspace);
    const SeriesBatch batch = MakeBatch(form_, input, windows, count, workspace);
    const int64_t each = Answered(batch.steps);
    const auto out = View<double, 2>::Contiguous(workspace.Take<double>(count * each * outputs), {count * each, outputs});
    answerer_->Answer(batch, out, workspace, executor);
    for (int64_t w = 0; w < count; ++w) {
      const int64_t answered = Answered(windows[w].steps);
      for (int64_t step = windows[w].read; step < answered; ++step) places.Put(windows[w], step, &out(w * each + step, 0));
    }
    count = 0;
  };
  for (int64_t row = 0; row < input.features.extent[0]; ++row) {
    const int64_t length = LengthOf(input, row), all = WindowCount(form_, length);
    for (int64_t w = 0; w < all; ++w) {
      windows[count++] = WindowAt(form_, row, length, w);
      if (count == at_once) answer();
    }
    if (Answered(length) == length) places.Clear(row);
  }
  if (count > 0) answer();
}

void SeriesModel::Predict(const SeriesInput& input, const SeriesAnswers& answers) const {
  ModelWorkspace workspace;
  Predict(input, answers, workspace, ThreadPool::Default());
}

}  // namespace heed
