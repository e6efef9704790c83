#include "series/answerer.h"

#include <algorithm>
#include <cmath>

#include "heed/error.h"
#include "heed/portable_math.h"

namespace heed {
namespace {

constexpr int64_t kStepsAtOnce = 8192;  // which bounds the memory of a call

// Logits, or logarithms of probabilities, become probabilities.
void Softmax(double* logits, int64_t count) {
  const double largest = *std::max_element(logits, logits + count);
  double sum = 0;
  for (int64_t c = 0; c < count; ++c) sum += portable::Exp(logits[c] - largest);
  const double normaliser = largest + portable::Log(sum);
  for (int64_t c = 0; c < count; ++c) logits[c] = portable::Exp(logits[c] - normaliser);
}

}  // namespace

void AnswerPlaces::RequireFinite(int64_t row, const double* answer) const {
  if (std::all_of(answer, answer + form_.outputs(), [](double number) { return std::isfinite(number); })) return;
  throw Error("model: its answers to row " + std::to_string(row) +
              " are not all finite; its weights are damaged, or its training diverged");
}

void AnswerPlaces::PutValue(int64_t row, int64_t place, int64_t output, double value) const {
  answers_.values(row, place, output) = value;
  if (answers_.low.present()) answers_.low(row, place, output) = value + low_[output];
  if (answers_.high.present()) answers_.high(row, place, output) = value + high_[output];
}

void AnswerPlaces::Put(const SeriesWindow& window, int64_t step, double* answer) const {
  const int64_t outputs = form_.outputs();
  RequireFinite(window.row, answer);
  if (form_.Classifies()) Softmax(answer, outputs);
  const double base = form_.Forecasts() ? RowTarget(form_, input_, window.row).Last() : form_.target_mean;
  const int64_t place = form_.each_step && !form_.Forecasts() ? window.first + step : 0;
  for (int64_t o = 0; o < outputs; ++o)
    PutValue(window.row, place, o, form_.Classifies() ? answer[o] : answer[o] * form_.target_scale + base);
}

void AnswerPlaces::PutForecast(int64_t row, const double* values) const {
  RequireFinite(row, values);
  for (int64_t o = 0; o < form_.outputs(); ++o) PutValue(row, 0, o, values[o]);
}

void AnswerPlaces::Clear(int64_t row) const {
  for (const View<double, 3>* view : {&answers_.values, &answers_.low, &answers_.high}) {
    for (int64_t i = LengthOf(input_, row); view->present() && i < view->extent[1]; ++i) {
      for (int64_t o = 0; o < view->extent[2]; ++o) (*view)(row, i, o) = 0;
    }
  }
}

void WindowAnswerer::Answer(const SeriesForm& form, const SeriesInput& input, const AnswerPlaces& places,
                            ModelWorkspace& workspace, Executor& executor) const {
  const int64_t at_once = std::max<int64_t>(1, kStepsAtOnce / form.steps()), outputs = form.outputs();
  auto* const windows = workspace.Take<SeriesWindow>(at_once);
  int64_t count = 0;
  const auto answer = [&] {
    const ModelWorkspace::Frame own(workspace);
    const SeriesBatch batch = MakeBatch(form, input, windows, count, workspace);
    const int64_t each = form.Answered(batch.steps);
    const auto out = View<double, 2>::Contiguous(workspace.Take<double>(count * each * outputs), {count * each, outputs});
    AnswerBatch(batch, out, workspace, executor);
    for (int64_t w = 0; w < count; ++w) {
      const int64_t answered = form.Answered(windows[w].steps);
      for (int64_t step = windows[w].read; step < answered; ++step) places.Put(windows[w], step, &out(w * each + step, 0));
    }
    count = 0;
  };
  for (int64_t row = 0; row < input.features.extent[0]; ++row) {
    const int64_t length = LengthOf(input, row), all = WindowCount(form, length);
    for (int64_t w = 0; w < all; ++w) {
      windows[count++] = WindowAt(form, row, length, w);
      if (count == at_once) answer();
    }
    if (form.Answered(length) == length) places.Clear(row);
  }
  if (count > 0) answer();
}

}  // namespace heed
