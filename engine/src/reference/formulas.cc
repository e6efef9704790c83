#include "reference/formulas.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <utility>

#include "reference/dense.h"
#include "reference/reference.h"
#include "reference/schemes.h"

namespace heed::reference {

Formulas::Formulas(const Attention& attention, View<const double, 4> q, View<const double, 4> k, View<const double, 4> v,
                   Tape* tape, const Tangents<double>& tangents)
    : attention_(attention), q_(q), k_(k), v_(v), tape_(tape), tangents_(tangents) {
  if (!tape) return;
  ForEachScheme([&]<class Scheme>() {
    Scheme::ForEachTable(attention, tangents_.biases, [&](const char*, const auto& table, const auto& tangent) {
      const auto [data, empty] = std::visit(
          [](const auto& view) {
            return std::pair{static_cast<const void*>(view.data), view.size() == 0};
          },
          table);
      if (!empty && std::ranges::find(tables_, data, &KnownTable::data) != tables_.end())
        throw std::logic_error("the reference tells tables by their memory: two of a call share it");
      tables_.push_back({data, tangent.data});
    });
  });
}

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

double Formulas::KeyPosition(const Pair& pair) const { return Position(attention_.key_positions, 0, pair.b, pair.j); }

double Formulas::QueryPosition(const Pair& pair) const {
  double first = 0;
  if (attention_.causal == Causal::kBottomRight)
    first = static_cast<double>(attention_.key_positions.offset.value_or(0) + KeyCount(pair.b) - QueryCount(pair.b));
  return Position(attention_.query_positions, first, pair.b, pair.i);
}

double Formulas::Offset(const Pair& pair) const { return KeyPosition(pair) - QueryPosition(pair); }

bool Formulas::Padded(int64_t b, int64_t i) const {
  const auto& lengths = attention_.query_lengths;
  return lengths.present() && i >= lengths.values(b, 0);
}

bool Formulas::Visible(const Pair& pair) const {
  const double offset = Offset(pair);
  bool by_order = attention_.causal == Causal::kNone || offset <= 0;
  const Window& window = attention_.window;
  if (window.left >= 0 && offset < -static_cast<double>(window.left)) by_order = false;
  if (window.right >= 0 && offset > static_cast<double>(window.right)) by_order = false;
  const auto& prefix = attention_.prefix_lengths.values;
  if (prefix.present() && pair.j < prefix(pair.b, 0)) by_order = true;
  if (!by_order) return false;
  const auto& lengths = attention_.key_lengths.values;
  if (lengths.present() && pair.j >= lengths(pair.b, lengths.extent[1] == 1 ? 0 : pair.i)) return false;
  if (attention_.mask.present() && !Broadcast(attention_.mask.values, pair)) return false;
  bool hidden = false;
  ForEachScheme([&]<class Scheme>() { hidden = hidden || Scheme::Hides(*this, pair); });
  return !hidden;
}

bool Formulas::Uniform(int64_t b, int64_t h, int64_t i) const {
  if (attention_.empty_row != EmptyRow::kUniform || Padded(b, i)) return false;
  for (int64_t j = 0; j < KeyCount(b); ++j)
    if (Visible({b, h, i, j})) return false;
  return true;
}

int64_t Formulas::Clipped(int64_t rows, const Pair& pair) const {
  const int64_t distance = (rows - 1) / 2;
  const auto limit = static_cast<double>(distance);
  return static_cast<int64_t>(std::clamp(Offset(pair), -limit, limit)) + distance;
}

Number Formulas::Score(const Pair& pair) const {
  const Numbers query = Query(pair.b, pair.h, pair.i), key = Key(pair.b, pair.h, pair.j);
  Number dot, score;
  for (int64_t c = 0; c < head_dim(); ++c) {
    double factor = 1;
    ForEachScheme([&]<class Scheme>() { factor *= Scheme::Factor(*this, pair, c); });
    dot.AddProduct(query(c), key(c), factor);
  }
  ForEachScheme([&]<class Scheme>() { Scheme::AddToProduct(*this, pair, dot); });
  score.Add(dot, Scale());
  if (attention_.softcap) {
    const double tanh = std::tanh(score.value / *attention_.softcap), slope = 1 - tanh * tanh;
    Number capped;
    capped.value = *attention_.softcap * tanh, capped.magnitude = score.magnitude;
    // 1 - tanh^2 is rounded at the size of 1.
    capped.Depend(score, slope, -2 * tanh * slope / *attention_.softcap * score.tangent, tanh * tanh);
    score = capped;
  }
  ForEachScheme([&]<class Scheme>() { Scheme::AddToScore(*this, pair, score); });
  ForEachScheme([&]<class Scheme>() { Scheme::MakeScore(*this, pair, score); });
  return score;
}

std::optional<Number> Formulas::KeyScore(int64_t b, int64_t h, int64_t i) const {
  std::optional<Number> score;
  ForEachScheme([&]<class Scheme>() {
    if (!score) score = Scheme::KeyScore(*this, b, h, i);
  });
  return score;
}

bool Formulas::Kept(const Pair& pair) const {
  const Dropout& dropout = attention_.dropout;
  if (dropout.probability == 0) return true;
  const auto threshold = static_cast<uint32_t>(std::lround(dropout.probability * 65536));
  const auto index = [](int64_t at, int64_t first) { return static_cast<uint64_t>(at + first); };
  return DropoutBits(dropout.seed, index(pair.b, dropout.batch_offset), index(pair.h, dropout.first_head),
                     index(pair.i, dropout.first_query), index(pair.j, dropout.first_key)) >= threshold;
}

double Formulas::KeptScale() const {
  return 65536.0 / (65536.0 - static_cast<double>(std::lround(attention_.dropout.probability * 65536)));
}

}  // namespace heed::reference
