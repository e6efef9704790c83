#include "lab/series/examples.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numeric>

#include <ATen/ATen.h>
#include <fmt/core.h>

#include "lab/runs/contender.h"
#include "lab/training/interrupt.h"

namespace heed::lab {
namespace {

constexpr int64_t kMostCells = 1024;   // of a row
constexpr int64_t kSummaries = 6;      // of a column
constexpr int64_t kReach = 8;          // steps to each side of one that has its own target
constexpr int64_t kRowsAtOnce = 4096;  // of a table that is only looked through

bool LengthsDiffer(const SeriesBatches& batches) {
  const auto steps = [&](const SeriesSequence& sequence) { return std::min(sequence.steps, batches.longest()); };
  return std::ranges::any_of(batches.data().sequences, [&](const SeriesSequence& s) { return steps(s) != batches.longest(); });
}

// Each column less its last value in the row, from its changes.
void LessLast(const SeriesBatch& batch, int64_t width, int64_t column, int64_t row, std::vector<double>& values) {
  const float* const changes = &batch.features[row * batch.steps * width + column];
  values.assign(batch.steps, 0.0);
  for (int64_t step = batch.lengths[row] - 2; step >= 0; --step) {
    values[step] = values[step + 1] - static_cast<double>(changes[(step + 1) * width]);
  }
}

}  // namespace

double MeanLoss(const at::Tensor& answers, const at::Tensor& y) {
  if (y.dim() == 1) return -answers.gather(1, y.unsqueeze(1)).mean().item<double>();
  return (answers - y).square().mean().item<double>();
}

SeriesExamples::SeriesExamples(const SeriesBatches& batches, RowOf row_of)
    : batches_(batches), row_of_(row_of), forecasts_(batches.data().goal == SeriesGoal::kForecast) {
  const bool steps_apart = !forecasts_ && !batches.pooled();
  masked_ = !forecasts_ && (steps_apart || LengthsDiffer(batches));
  const bool summarises = row_of == RowOf::kSummary;
  span_ = summarises ? 1 : steps_apart ? 2 * kReach + 1 : batches.longest();
  const int64_t width = batches.width(), most = summarises ? kMostCells / kSummaries : kMostCells;
  const int64_t kept = std::min(most - (masked_ ? 1 : 0), width);
  for (int64_t i = 0; i < kept; ++i) columns_.push_back(i * width / kept);
  pieces_ = std::min(span_, kMostCells / cells_of_piece());
}

int64_t SeriesExamples::cells_of_piece() const {
  return std::ssize(columns_) * (row_of_ == RowOf::kSummary ? kSummaries : 1) + (masked_ ? 1 : 0);
}

int64_t SeriesExamples::RowsOf(const std::vector<SeriesWindow>& windows) const {
  if (forecasts_ || batches_.pooled()) return std::ssize(windows);
  return std::accumulate(windows.begin(), windows.end(), int64_t{0},
                         [](int64_t sum, const SeriesWindow& window) { return sum + window.steps; });
}

Examples SeriesExamples::Training(int64_t most) const {
  const bool one_each = forecasts_ || batches_.pooled();
  return Thinned(batches_.TrainingWindows(one_each ? most : batches_.training_count()), most);
}

Examples SeriesExamples::Validation(int64_t most) const { return Thinned(batches_.validation_windows(), most); }

std::string SeriesExamples::Limits(int64_t most) const {
  const int64_t rows = RowsOf(batches_.TrainingWindows(batches_.training_count()));
  std::vector<std::string> limits;
  if (rows > most) limits.push_back(fmt::format("fitted on {} of {} examples", most, rows));
  if (pieces_ < span_) limits.push_back(fmt::format("{} steps averaged to {}", span_, pieces_));
  if (std::ssize(columns_) < batches_.width()) {
    limits.push_back(fmt::format("{} of {} columns", columns_.size(), batches_.width()));
  }
  return Join(limits);
}

Examples SeriesExamples::Thinned(const std::vector<SeriesWindow>& windows, int64_t most) const {
  const int64_t rows = RowsOf(windows), kept = std::min(rows, most);
  std::vector<at::Tensor> X, y;
  int64_t taken = 0, seen = 0;
  batches_.ForEach(windows, [&](const SeriesBatch& batch) {
    if (Interrupted()) throw Interruption("interrupted while simple methods were fitted");
    const int64_t end = seen + std::ssize(batch.scored);
    std::vector<int64_t> chosen;
    for (; taken < kept && taken * rows / kept < end; ++taken) chosen.push_back(taken * rows / kept - seen);
    seen = end;
    if (chosen.empty()) return;
    const Examples examples = Flat(batch, chosen);
    X.push_back(examples.X);
    y.push_back(examples.y);
  });
  return {at::cat(X), at::cat(y)};
}

void SeriesExamples::ForEach(const std::vector<SeriesWindow>& windows,
                             const std::function<void(const Examples&)>& visit) const {
  batches_.ForEach(windows, [&](const SeriesBatch& batch) {
    const int64_t scored = std::ssize(batch.scored);
    for (int64_t first = 0; first < scored; first += kRowsAtOnce) {
      if (Interrupted()) throw Interruption("interrupted while simple methods were measured");
      std::vector<int64_t> chosen(std::min(scored - first, kRowsAtOnce));
      std::iota(chosen.begin(), chosen.end(), first);
      visit(Flat(batch, chosen));
    }
  });
}

Examples SeriesExamples::Flat(const SeriesBatch& batch, const std::vector<int64_t>& chosen) const {
  const int64_t rows = std::ssize(chosen), outputs = batches_.outputs();
  const bool classes = !batch.classes.empty(), steps_apart = !forecasts_ && !batches_.pooled();
  Examples examples{at::zeros({rows, cells()}, at::kDouble),
                    classes ? at::empty({rows}, at::kLong) : at::empty({rows, outputs}, at::kDouble)};
  for (int64_t i = 0; i < rows; ++i) {
    const int64_t scored = chosen[i], place = batch.scored[scored];
    const int64_t row = batches_.pooled() ? place : place / batch.steps;
    const int64_t begin = steps_apart ? place % batch.steps - kReach : 0;
    double* const cells_of_row = examples.X.mutable_data_ptr<double>() + i * cells();
    row_of_ == RowOf::kSummary ? Summarise(batch, row, cells_of_row) : FillRow(batch, row, begin, cells_of_row);
    if (classes) {
      examples.y.mutable_data_ptr<int64_t>()[i] = batch.classes[scored];
      continue;
    }
    const auto values = batch.values.begin() + scored * outputs;
    std::copy(values, values + outputs, examples.y.mutable_data_ptr<double>() + i * outputs);
  }
  return examples;
}

void SeriesExamples::FillRow(const SeriesBatch& batch, int64_t row, int64_t begin, double* cells) const {
  const int64_t width = batches_.width(), each = cells_of_piece(), mask = std::ssize(columns_);
  std::vector<double> counts(pieces_, 0.0), sizes(pieces_, 0.0), relative;
  const auto piece_of = [&](int64_t i) { return i * pieces_ / span_; };
  const auto is_there = [&](int64_t i) { return begin + i >= 0 && begin + i < batch.lengths[row]; };
  for (int64_t i = 0; i < span_; ++i) {
    sizes[piece_of(i)] += 1;
    counts[piece_of(i)] += is_there(i) ? 1 : 0;
  }
  for (int64_t c = 0; c < mask; ++c) {
    const bool less_last = forecasts_ && columns_[c] < batches_.data().Width();
    if (less_last) LessLast(batch, width, columns_[c], row, relative);
    for (int64_t i = 0; i < span_; ++i) {
      if (!is_there(i)) continue;
      const int64_t step = begin + i;
      const double value = less_last ? relative[step] : batch.features[(row * batch.steps + step) * width + columns_[c]];
      cells[piece_of(i) * each + c] += value / counts[piece_of(i)];
    }
  }
  for (int64_t p = 0; masked_ && p < pieces_; ++p) cells[p * each + mask] = counts[p] / sizes[p];
}

void SeriesExamples::Summarise(const SeriesBatch& batch, int64_t row, double* cells) const {
  const int64_t width = batches_.width(), steps = batch.lengths[row];
  const double count = static_cast<double>(steps), middle = (count - 1) / 2;
  for (const int64_t column : columns_) {
    const auto value = [&](int64_t i) { return static_cast<double>(batch.features[(row * batch.steps + i) * width + column]); };
    double mean = 0, squares = 0, least = value(0), greatest = value(0), changes = 0, slope = 0, moments = 0;
    for (int64_t i = 0; i < steps; ++i) mean += value(i) / count;
    for (int64_t i = 0; i < steps; ++i) {
      const double off = value(i) - mean, time = static_cast<double>(i) - middle;
      squares += off * off, slope += time * off, moments += time * time;
      least = std::min(least, value(i)), greatest = std::max(greatest, value(i));
      if (i > 0) changes += std::abs(value(i) - value(i - 1));
    }
    const double summaries[kSummaries] = {mean,     std::sqrt(squares / count),         least,
                                          greatest, changes / std::max(1.0, count - 1), moments > 0 ? slope / moments : 0};
    cells = std::copy(std::begin(summaries), std::end(summaries), cells);
  }
  if (masked_) *cells = count;
}

}  // namespace heed::lab
