#include "heed/series_cells.h"

#include <algorithm>
#include <cmath>
#include <iterator>

namespace heed {
namespace {

constexpr int64_t kMostCells = 1024;  // of a row
constexpr int64_t kSummaries = 6;     // of a column
constexpr int64_t kReach = 8;         // steps to each side of one that has its own target

}  // namespace

SeriesCells::SeriesCells(const Shape& shape, RowOf row_of, bool lengths_differ) : shape_(shape) {
  const bool steps_apart = !shape.forecasts && shape.each_step;
  masked_ = !shape.forecasts && (steps_apart || lengths_differ);
  span_ = steps_apart ? 2 * kReach + 1 : shape.steps;
  if (row_of != RowOf::kSummary) steps_ = PartOf(span_, 1);
  if (row_of != RowOf::kSteps) summaries_ = PartOf(1, kSummaries);
}

SeriesCells::Part SeriesCells::PartOf(int64_t span, int64_t cells_of_column) const {
  const int64_t mask = masked_ ? 1 : 0, kept = std::min(kMostCells / cells_of_column - mask, shape_.width);
  Part part;
  for (int64_t i = 0; i < kept; ++i) part.columns.push_back(i * shape_.width / kept);
  part.each = kept * cells_of_column + mask;
  part.pieces = std::min(span, kMostCells / part.each);
  return part;
}

int64_t SeriesCells::columns() const { return std::ssize(steps_.pieces > 0 ? steps_.columns : summaries_.columns); }

void SeriesCells::Fill(const float* features, int64_t length, int64_t step, double* cells) const {
  std::fill_n(cells, this->cells(), 0.0);
  if (steps_.pieces > 0) FillSteps(features, length, !shape_.forecasts && shape_.each_step ? step - kReach : 0, cells);
  if (summaries_.pieces > 0) Summarise(features, length, cells + steps_.cells());
}

void SeriesCells::FillSteps(const float* features, int64_t length, int64_t begin, double* cells) const {
  const int64_t each = steps_.each, pieces = steps_.pieces, mask = std::ssize(steps_.columns);
  const auto first_of = [&](int64_t piece) { return (piece * span_ + pieces - 1) / pieces; };
  // Of the steps of a piece, those that are there.
  const auto there = [&](int64_t piece) {
    return std::max<int64_t>(0, std::min(first_of(piece + 1), length - begin) - std::max(first_of(piece), -begin));
  };
  const int64_t first = std::max<int64_t>(0, -begin), end = std::min(span_, length - begin);
  for (int64_t c = 0; c < mask; ++c) {
    const float* const column = features + steps_.columns[c];
    const auto at = [&](int64_t i) { return static_cast<double>(column[(begin + i) * shape_.width]); };
    const auto add = [&](int64_t i, double value) {
      const int64_t piece = i * pieces / span_;
      cells[piece * each + c] += value / static_cast<double>(there(piece));
    };
    if (shape_.forecasts && steps_.columns[c] < shape_.features) {
      // The column less its last value, from its changes.
      double relative = 0;
      for (int64_t i = end - 1; i >= first; relative -= at(i), --i) add(i, relative);
    } else {
      for (int64_t i = first; i < end; ++i) add(i, at(i));
    }
  }
  for (int64_t p = 0; masked_ && p < pieces; ++p)
    cells[p * each + mask] = static_cast<double>(there(p)) / static_cast<double>(first_of(p + 1) - first_of(p));
}

void SeriesCells::Summarise(const float* features, int64_t length, double* cells) const {
  const auto count = static_cast<double>(length);
  const double middle = (count - 1) / 2;
  for (const int64_t column : summaries_.columns) {
    const auto value = [&](int64_t i) { return static_cast<double>(features[i * shape_.width + column]); };
    double mean = 0, squares = 0, least = value(0), greatest = value(0), changes = 0, slope = 0, moments = 0;
    for (int64_t i = 0; i < length; ++i) mean += value(i) / count;
    for (int64_t i = 0; i < length; ++i) {
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

}  // namespace heed
