#include "lab/series/examples.h"

#include <algorithm>
#include <iterator>
#include <numeric>

#include <ATen/ATen.h>
#include <fmt/core.h>

#include "lab/runs/contender.h"
#include "lab/training/interrupt.h"

namespace heed::lab {
namespace {

constexpr int64_t kRowsAtOnce = 4096;  // of a table that is only looked through

}  // namespace

double MeanLoss(const at::Tensor& answers, const at::Tensor& y) {
  if (y.dim() == 1) return -answers.gather(1, y.unsqueeze(1)).mean().item<double>();
  return (answers - y).square().mean().item<double>();
}

bool LengthsDiffer(const SeriesBatches& batches) {
  const auto steps = [&](const SeriesSequence& sequence) { return std::min(sequence.steps, batches.longest()); };
  return std::ranges::any_of(batches.data().sequences, [&](const SeriesSequence& s) { return steps(s) != batches.longest(); });
}

SeriesRows::SeriesRows(const SeriesForm& form, RowOf row_of, bool lengths_differ)
    : cells_({form.Forecasts(), form.each_step, form.width(), std::ssize(form.features), form.steps()}, row_of, lengths_differ),
      pooled_(!form.each_step),
      width_(form.width()),
      outputs_(form.outputs()) {}

std::vector<std::string> SeriesRows::Limits() const {
  std::vector<std::string> limits;
  if (cells_.pieces() < cells_.span()) limits.push_back(fmt::format("{} steps averaged to {}", cells_.span(), cells_.pieces()));
  if (cells_.columns() < width_) limits.push_back(fmt::format("{} of {} columns", cells_.columns(), width_));
  return limits;
}

SeriesExamples::SeriesExamples(const SeriesBatches& batches, RowOf row_of)
    : batches_(batches), rows_(batches.form(), row_of, LengthsDiffer(batches)) {}

Examples SeriesExamples::Training(int64_t most) const {
  const bool one_each = batches_.form().Forecasts() || batches_.pooled();
  return Thinned(batches_.TrainingWindows(one_each ? most : batches_.training_count()), most);
}

Examples SeriesExamples::Validation(int64_t most) const { return Thinned(batches_.validation_windows(), most); }

std::string SeriesExamples::Limits(int64_t most) const {
  const int64_t rows = batches_.form().Answers(batches_.TrainingWindows(batches_.training_count()));
  std::vector<std::string> limits;
  if (rows > most) limits.push_back(fmt::format("fitted on {} of {} examples", most, rows));
  std::ranges::move(rows_.Limits(), std::back_inserter(limits));
  return Join(limits);
}

Examples SeriesExamples::Thinned(const std::vector<SeriesWindow>& windows, int64_t most) const {
  const int64_t rows = batches_.form().Answers(windows), kept = std::min(rows, most);
  std::vector<at::Tensor> X, y;
  int64_t taken = 0, seen = 0;
  batches_.ForEach(windows, [&](const SeriesBatch& batch) {
    if (Interrupted()) throw Interruption("interrupted while simple methods were fitted");
    const int64_t end = seen + std::ssize(batch.scored);
    std::vector<int64_t> chosen;
    for (; taken < kept && taken * rows / kept < end; ++taken) chosen.push_back(taken * rows / kept - seen);
    seen = end;
    if (chosen.empty()) return;
    const Examples examples = rows_.Of(batch, chosen);
    X.push_back(examples.X);
    y.push_back(examples.y);
  });
  return {at::cat(X), at::cat(y)};
}

void SeriesExamples::ForEach(const std::vector<SeriesWindow>& windows,
                             const std::function<void(const Examples&)>& visit) const {
  batches_.ForEach(windows, [&](const SeriesBatch& batch) { ForEachRow(rows_, batch, visit); });
}

void ForEachRow(const SeriesRows& rows, const SeriesBatch& batch, const std::function<void(const Examples&)>& visit) {
  const int64_t scored = std::ssize(batch.scored);
  for (int64_t first = 0; first < scored; first += kRowsAtOnce) {
    if (Interrupted()) throw Interruption("interrupted while simple methods were measured");
    std::vector<int64_t> chosen(std::min(scored - first, kRowsAtOnce));
    std::iota(chosen.begin(), chosen.end(), first);
    visit(rows.Of(batch, chosen));
  }
}

Examples SeriesRows::Of(const SeriesBatch& batch, const std::vector<int64_t>& chosen) const {
  const bool classes = !batch.classes.empty(), values = !batch.values.empty();
  const int64_t rows = std::ssize(chosen), answers = classes || values ? rows : 0;
  Examples examples{at::zeros({rows, cells()}, at::kDouble),
                    classes ? at::empty({answers}, at::kLong) : at::empty({answers, outputs_}, at::kDouble)};
  for (int64_t i = 0; i < rows; ++i) {
    const int64_t scored = chosen[i], place = batch.scored[scored];
    const int64_t row = pooled_ ? place : place / batch.steps;
    cells_.Fill(&batch.features[row * batch.steps * width_], batch.lengths[row], pooled_ ? 0 : place % batch.steps,
                examples.X.mutable_data_ptr<double>() + i * cells());
    if (classes) examples.y.mutable_data_ptr<int64_t>()[i] = batch.classes[scored];
    if (!values) continue;
    const auto first = batch.values.begin() + scored * outputs_;
    std::copy(first, first + outputs_, examples.y.mutable_data_ptr<double>() + i * outputs_);
  }
  return examples;
}

}  // namespace heed::lab
