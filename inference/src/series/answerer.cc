#include "series/answerer.h"

#include <algorithm>

namespace heed {
namespace {

constexpr int64_t kStepsAtOnce = 8192;  // which bounds the memory of a call

}  // namespace

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
