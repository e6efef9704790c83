#include "position/sinks/scheme.h"

#include <cstdint>
#include <string>
#include <variant>

#include "core/refuse.h"
#include "core/validation.h"

namespace heed::position {
namespace {

// An extent of 1 serves all.
template <class T>
double EntryOf(const View<T, 3>& scores, int64_t row, int64_t head, int64_t query) {
  return static_cast<double>(scores(scores.extent[0] == 1 ? 0 : row, head, scores.extent[2] == 1 ? 0 : query));
}
double ScoreOf(const Sinks& sinks, int64_t row, int64_t head, int64_t query) {
  return std::visit([&](const auto& scores) { return EntryOf(scores, row, head, query); }, sinks.scores);
}

}  // namespace

void SinksScheme::Check(const Attention& attention, const Shape& shape) {
  const bool packed = attention.packed.present();
  const int64_t rows = packed ? 1 : shape.batch, queries = packed ? core::CheckPacked(attention.packed).queries : shape.q_len;
  const auto extent = ExtentOf(attention.sinks->scores);
  const auto fits = [](int64_t own, int64_t all) { return own == 1 || own == all; };
  if (!fits(extent[0], rows) || extent[1] != shape.q_heads || !fits(extent[2], queries))
    core::Refuse("sinks", "expected [B or 1, Hq, Nq or 1] with [B, Hq, Nq] = [" + std::to_string(rows) + ", " +
                              std::to_string(shape.q_heads) + ", " + std::to_string(queries) + "], got " +
                              core::ShapeText(extent));
  if (attention.empty_row == EmptyRow::kUniform)
    core::Refuse("sinks", "expected empty_row zero beside it: the mean of all values leaves a sink no weight");
}

double SinksScheme::KeyScore(const Attention& attention, int64_t row, int64_t head, int64_t query) {
  return ScoreOf(*attention.sinks, row, head, query);
}

template <class T>
double SinksScheme::KeyTangent(const BiasGradients<T>& tangents, int64_t row, int64_t head, int64_t query) {
  return tangents.sinks.present() ? EntryOf(tangents.sinks, row, head, query) : 0.0;
}
template double SinksScheme::KeyTangent(const BiasGradients<float>&, int64_t, int64_t, int64_t);
template double SinksScheme::KeyTangent(const BiasGradients<double>&, int64_t, int64_t, int64_t);

template <class T>
void SinksCall<T>::SumKey(const attention::ValuelessKeyGradients& gradients, int64_t head) const {
  // The entries from `own` on, of how many there are, that an entry of the array belongs to.
  const auto served = [](int64_t extent, int64_t own, int64_t all) {
    return extent == 1 ? attention::KeyRange{0, all} : attention::KeyRange{own, own + 1};
  };
  for (int64_t row = 0; row < d_sinks_.extent[0]; ++row)
    for (int64_t query = 0; query < d_sinks_.extent[2]; ++query) {
      const attention::KeyRange rows = served(d_sinks_.extent[0], row, gradients.rows),
                                queries = served(d_sinks_.extent[2], query, gradients.queries);
      const double score = ScoreOf(sinks_, row, head, query);
      double sum = 0;
      for (int64_t b = rows.begin; b < rows.end; ++b)
        for (int64_t i = queries.begin; i < queries.end; ++i) sum += gradients.of(b, head, i, score);
      d_sinks_(row, head, query) = static_cast<T>(sum);
    }
}

template class SinksCall<float>;
template class SinksCall<double>;

}  // namespace heed::position
