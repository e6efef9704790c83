#include "reference/formulas.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "reference/reference.h"

namespace heed::reference {
namespace {

double At(const Table<2>& table, int64_t r, int64_t c) {
  return std::visit([&](const auto& t) { return static_cast<double>(t(r, c)); }, table);
}

int64_t Rows(const Table<2>& table) {
  return std::visit([](const auto& t) { return t.extent[0]; }, table);
}

}  // namespace

int64_t Formulas::batch() const { return packed() ? attention_.packed.query_offsets.extent[0] - 1 : q_.extent[0]; }

int64_t Formulas::QueryCount(int64_t b) const {
  const auto& offsets = attention_.packed.query_offsets;
  return packed() ? offsets(b + 1) - offsets(b) : q_.extent[2];
}

int64_t Formulas::KeyCount(int64_t b) const {
  const auto& offsets = attention_.packed.key_offsets;
  return packed() ? offsets(b + 1) - offsets(b) : k_.extent[2];
}

int64_t Formulas::LongestKeys() const {
  int64_t longest = 0;
  for (int64_t b = 0; b < batch(); ++b) longest = std::max(longest, KeyCount(b));
  return longest;
}

double Formulas::Scale() const { return attention_.scale.value_or(1.0 / std::sqrt(static_cast<double>(head_dim()))); }

int64_t Formulas::QueryRow(int64_t b, int64_t h, int64_t i) const {
  if (packed()) return h * q_.extent[2] + attention_.packed.query_offsets(b) + i;
  return (b * heads() + h) * q_.extent[2] + i;
}

int64_t Formulas::KeyRow(int64_t b, int64_t h, int64_t j) const {
  if (packed()) return KvHead(h) * k_.extent[2] + attention_.packed.key_offsets(b) + j;
  return (b * kv_heads() + KvHead(h)) * k_.extent[2] + j;
}

double Formulas::Position(const Positions& positions, double otherwise, int64_t b, int64_t t) const {
  const auto of = [&](const auto& list) { return static_cast<double>(list(list.extent[0] == 1 ? 0 : b, t)); };
  if (const auto* whole = std::get_if<View<const int64_t, 2>>(&positions.list)) return of(*whole);
  if (const auto* real = std::get_if<View<const double, 2>>(&positions.list)) return of(*real);
  return (positions.offset ? static_cast<double>(*positions.offset) : otherwise) + static_cast<double>(t);
}

double Formulas::Offset(int64_t b, int64_t i, int64_t j) const {
  const double first_key = static_cast<double>(attention_.key_positions.offset.value_or(0));
  double first_query = 0;
  if (attention_.causal == Causal::kBottomRight) first_query = first_key + static_cast<double>(KeyCount(b) - QueryCount(b));
  return Position(attention_.key_positions, first_key, b, j) - Position(attention_.query_positions, first_query, b, i);
}

bool Formulas::Padded(int64_t b, int64_t i) const {
  const auto& lengths = attention_.query_lengths;
  return lengths.present() && i >= lengths.values(b, 0);
}

bool Formulas::Visible(int64_t b, int64_t h, int64_t i, int64_t j) const {
  const double offset = Offset(b, i, j);
  bool by_order = attention_.causal == Causal::kNone || offset <= 0;
  const Window& window = attention_.window;
  if (window.left >= 0 && offset < -static_cast<double>(window.left)) by_order = false;
  if (window.right >= 0 && offset > static_cast<double>(window.right)) by_order = false;
  const auto& prefix = attention_.prefix_lengths.values;
  if (prefix.present() && j < prefix(b, 0)) by_order = true;
  if (!by_order) return false;
  const auto& lengths = attention_.key_lengths.values;
  if (lengths.present() && j >= (lengths.extent[1] == 1 ? lengths(b, 0) : lengths(b, i))) return false;
  if (attention_.mask.present() && !Broadcast(attention_.mask.values, b, h, i, j)) return false;
  if (!attention_.bias) return true;
  const double bias =
      std::visit([&](const auto& t) { return static_cast<double>(Broadcast(t, b, h, i, j)); }, attention_.bias->values);
  return bias != -std::numeric_limits<double>::infinity();
}

bool Formulas::Uniform(int64_t b, int64_t h, int64_t i) const {
  if (attention_.empty_row != EmptyRow::kUniform || Padded(b, i)) return false;
  for (int64_t j = 0; j < KeyCount(b); ++j)
    if (Visible(b, h, i, j)) return false;
  return true;
}

int64_t Formulas::Clipped(int64_t rows, int64_t b, int64_t i, int64_t j) const {
  const int64_t distance = (rows - 1) / 2;
  const auto limit = static_cast<double>(distance);
  return static_cast<int64_t>(std::clamp(Offset(b, i, j), -limit, limit) + limit);
}

int64_t Formulas::ContentRows() const {
  if (!attention_.content_bias) return 0;
  const ContentBias& bias = *attention_.content_bias;
  return Rows(bias.keys ? *bias.keys : bias.values ? *bias.values : *bias.queries);
}

double Formulas::ContentKey(int64_t row, int64_t c) const {
  return attention_.content_bias && attention_.content_bias->keys ? At(*attention_.content_bias->keys, row, c) : 0.0;
}

double Formulas::ContentValue(int64_t row, int64_t c) const {
  return attention_.content_bias && attention_.content_bias->values ? At(*attention_.content_bias->values, row, c) : 0.0;
}

double Formulas::ContentQuery(int64_t row, int64_t c) const {
  return attention_.content_bias && attention_.content_bias->queries ? At(*attention_.content_bias->queries, row, c) : 0.0;
}

double Formulas::Product(int64_t b, int64_t h, int64_t i, int64_t j) const {
  const int64_t row = attention_.content_bias ? Clipped(ContentRows(), b, i, j) : 0;
  const Row query = Query(b, h, i), key = Key(b, h, j);
  double dot = 0;
  for (int64_t c = 0; c < head_dim(); ++c) dot += query(c) * (key(c) + ContentKey(row, c)) + key(c) * ContentQuery(row, c);
  return Scale() * dot;
}

double Formulas::DistanceTerm(int64_t b, int64_t i, int64_t j) const {
  const double offset = Offset(b, i, j);
  return attention_.slope_bias->symmetric ? -std::abs(offset) : offset;
}

double Formulas::Score(int64_t b, int64_t h, int64_t i, int64_t j, double& magnitude) const {
  double score = Product(b, h, i, j);
  magnitude = std::abs(score);
  if (attention_.softcap) score = *attention_.softcap * std::tanh(score / *attention_.softcap);
  const auto add = [&](double bias) {
    score += bias;
    magnitude += std::abs(bias);
  };
  if (attention_.bias)
    add(std::visit([&](const auto& t) { return static_cast<double>(Broadcast(t, b, h, i, j)); }, attention_.bias->values));
  if (attention_.relative_bias) {
    const int64_t columns = std::visit([](const auto& t) { return t.extent[1]; }, attention_.relative_bias->table);
    add(At(attention_.relative_bias->table, h, Clipped(columns, b, i, j)));
  }
  if (attention_.slope_bias)
    add(DistanceTerm(b, i, j) *
        std::visit([&](const auto& slopes) { return static_cast<double>(slopes(h)); }, attention_.slope_bias->slopes));
  return score;
}

bool Formulas::Kept(int64_t b, int64_t h, int64_t i, int64_t j) const {
  const Dropout& dropout = attention_.dropout;
  if (dropout.probability == 0) return true;
  const auto threshold = static_cast<uint32_t>(std::lround(dropout.probability * 65536));
  return DropoutBits(dropout.seed, static_cast<uint64_t>(b + dropout.batch_offset), static_cast<uint64_t>(h),
                     static_cast<uint64_t>(i), static_cast<uint64_t>(j)) >= threshold;
}

double Formulas::KeptScale() const {
  return 65536.0 / (65536.0 - static_cast<double>(std::lround(attention_.dropout.probability * 65536)));
}

}  // namespace heed::reference
