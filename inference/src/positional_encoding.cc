#include "heed/positional_encoding.h"

#include <algorithm>
#include <string>

#include "heed/error.h"
#include "heed/shape_text.h"
#include "parameter.h"

namespace heed {
namespace {

// Rows and columns of a table: low enough that their product does not overflow.
constexpr int64_t kMost = int64_t{1} << 30;

void CheckTableSizes(const char* encoding, int64_t num_hiddens, int64_t max_len) {
  if (num_hiddens < 1 || max_len < 1 || num_hiddens > kMost || max_len > kMost) {
    throw InvalidArgument(std::string(encoding) + ": expected num_hiddens and max_len of 1 to 2^30, got " +
                          std::to_string(num_hiddens) + " and " + std::to_string(max_len));
  }
}

void CheckInput(const char* encoding, const View<const float, 3>& X, const View<float, 3>& out, int64_t width, int64_t offset) {
  const std::string who = encoding;
  if (X.extent[2] != width) {
    throw InvalidArgument(who + ": X: expected shape [batch, steps, " + std::to_string(width) + "], got " +
                          ShapeText(X.extent));
  }
  if (out.extent != X.extent) {
    throw InvalidArgument(who + ": out: expected the shape of X " + ShapeText(X.extent) + ", got " + ShapeText(out.extent));
  }
  if (X.size() > 0 && (!X.present() || !out.present())) throw InvalidArgument(who + ": X, out: no memory behind them");
  if (offset < 0) throw InvalidArgument(who + ": offset: expected 0 or more, got " + std::to_string(offset));
}

bool Reaches(int64_t max_len, int64_t steps, int64_t offset) { return steps <= max_len && offset <= max_len - steps; }

[[noreturn]] void ThrowTooLong(const char* encoding, int64_t steps, int64_t offset, int64_t max_len, const char* remedy) {
  throw InvalidArgument(std::string(encoding) + ": X has " + std::to_string(steps) + " steps from offset " +
                        std::to_string(offset) + " on, but max_len is " + std::to_string(max_len) + "; " + remedy);
}

// The rows from `first` on; the last one stands in for those that the table lacks.
void AddRows(View<const float, 3> X, const std::vector<float>& table, int64_t first, View<float, 3> out) {
  const int64_t width = X.extent[2], last = static_cast<int64_t>(table.size()) / width - 1;
  for (int64_t b = 0; b < X.extent[0]; ++b) {
    for (int64_t i = 0; i < X.extent[1]; ++i) {
      const float* row = table.data() + std::min(first + std::min(i, last), last) * width;
      for (int64_t c = 0; c < width; ++c) out(b, i, c) = X(b, i, c) + row[c];
    }
  }
}

std::vector<float> SinusoidalRows(const SinusoidalOptions& options, int64_t first, int64_t steps, int64_t width) {
  std::vector<float> table(static_cast<std::size_t>(steps * width));
  if (steps > 0) SinusoidalTable(options, first, View<float, 2>::Contiguous(table.data(), {steps, width}));
  return table;
}

}  // namespace

PositionalEncoding::PositionalEncoding(int64_t num_hiddens, int64_t max_len, LengthPolicy length_policy,
                                       SinusoidalOptions table)
    : num_hiddens_(num_hiddens), max_len_(max_len), length_policy_(length_policy), options_(table) {
  CheckTableSizes("PositionalEncoding", num_hiddens, max_len);
  table_ = SinusoidalRows(options_, 0, max_len, num_hiddens);
}

View<const float, 2> PositionalEncoding::P() const {
  return View<const float, 2>::Contiguous(table_.data(), {max_len_, num_hiddens_});
}

void PositionalEncoding::Forward(View<const float, 3> X, View<float, 3> out, int64_t offset) const {
  CheckInput("PositionalEncoding", X, out, num_hiddens_, offset);
  const int64_t steps = X.extent[1];
  if (Reaches(max_len_, steps, offset)) return AddRows(X, table_, offset, out);
  switch (length_policy_) {
    case LengthPolicy::kExtend:
      return AddRows(X, SinusoidalRows(options_, offset, steps, num_hiddens_), 0, out);
    case LengthPolicy::kClamp:
      return AddRows(X, table_, std::min(offset, max_len_ - 1), out);
    case LengthPolicy::kError:
      ThrowTooLong("PositionalEncoding", steps, offset, max_len_,
                   "raise max_len, or choose LengthPolicy::kExtend or LengthPolicy::kClamp");
  }
}

LearnedPositions::LearnedPositions(int64_t num_hiddens, int64_t max_len, LengthPolicy length_policy)
    : num_hiddens_(num_hiddens), max_len_(max_len), length_policy_(length_policy) {
  CheckTableSizes("LearnedPositions", num_hiddens, max_len);
  if (length_policy == LengthPolicy::kExtend) {
    throw InvalidArgument("LearnedPositions: a learned table cannot be extended; choose LengthPolicy::kError or kClamp");
  }
}

Parameters LearnedPositions::parameters() {
  Parameters own;
  own.list = {KeptIn(weight_, "weight", {max_len_, num_hiddens_})};
  return own;
}

void LearnedPositions::Forward(View<const float, 3> X, View<float, 3> out, int64_t offset) const {
  CheckInput("LearnedPositions", X, out, num_hiddens_, offset);
  if (weight_.empty()) throw InvalidArgument("LearnedPositions: its weights were not loaded");
  if (!Reaches(max_len_, X.extent[1], offset) && length_policy_ == LengthPolicy::kError) {
    ThrowTooLong("LearnedPositions", X.extent[1], offset, max_len_, "raise max_len, or choose LengthPolicy::kClamp");
  }
  AddRows(X, weight_, std::min(offset, max_len_ - 1), out);
}

}  // namespace heed
