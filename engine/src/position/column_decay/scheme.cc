#include "position/column_decay/scheme.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <string>

#include "core/refuse.h"
#include "heed/portable_math.h"

namespace heed::position {
namespace {

// In powers of two a position, so that the product with any position is a number. Between two whole positions nothing is left
// of a product at far smaller rates.
constexpr double kMostRate = 0x1p900;

double RateOf(const Table<1>& rates, int64_t c) {
  return std::visit([&](const auto& view) { return static_cast<double>(view(c)); }, rates);
}

}  // namespace

void ColumnDecayScheme::Check(const Attention& attention, const Shape& shape) {
  const Table<1>& rates = attention.column_decay->rates;
  const auto extent = ExtentOf(rates);
  if (extent[0] != shape.head_dim)
    core::Refuse("column_decay.rates",
                 "expected [D] = [" + std::to_string(shape.head_dim) + "], got " + core::ShapeText(extent));
  for (int64_t c = 0; c < extent[0]; ++c)
    if (const double rate = RateOf(rates, c); !(rate >= 0 && std::isfinite(rate)))
      core::Refuse("column_decay.rates",
                   "expected finite numbers of 0 or more, got " + std::to_string(rate) + " at " + std::to_string(c));
  if (attention.causal == Causal::kNone && attention.window.right != 0)
    core::Refuse("column_decay",
                 "expected causal beside it, or a window without later keys: products with them would grow without bound");
  if (attention.prefix_lengths.present())
    core::Refuse("column_decay", "expected no prefix_lengths beside it: products with later keys would grow without bound");
}

template <class T>
ColumnDecayCall<T>::ColumnDecayCall(const CallFacts& call, const BiasGradients<T>&)
    : option_(*call.attention.column_decay), cut_(call.cut), backward_(call.backward()), head_dim_(call.shape.head_dim) {
  for (int64_t c = 0; c < head_dim_; ++c) largest_ = std::max(largest_, Rate(c));
  cell_ = largest_ * static_cast<double>(kKeys) <= kMostBits ? kKeys : 1;
}

// In powers of two.
template <class T>
double ColumnDecayCall<T>::Rate(int64_t c) const {
  return std::min(RateOf(option_.rates, c), kMostRate / std::numbers::log2e) * std::numbers::log2e;
}

template <class T>
void ColumnDecayCall<T>::LayPrepared(core::Arena& arena) {
  rates_ = arena.Take<double>(cut_.head_dim);
  steps_ = arena.Take<T>(2, cell_, cut_.head_dim);
}

template <class T>
void ColumnDecayCall<T>::Prepare() const {
  std::fill_n(rates_, cut_.head_dim, 0.0);
  for (int64_t c = 0; c < head_dim_; ++c) rates_[c] = Rate(c);
  for (int64_t x = 0; x < cell_; ++x)
    for (int64_t c = 0; c < cut_.head_dim; ++c) {
      const double bits = rates_[c] * static_cast<double>(x);
      steps_[x * cut_.head_dim + c] = static_cast<T>(portable::Exp2(bits));
      steps_[(cell_ + x) * cut_.head_dim + c] = static_cast<T>(portable::Exp2(-bits));
    }
}

template <class T>
ColumnDecayCall<T>::Scratch::Scratch(core::Arena& arena, const ColumnDecayCall& call) {
  const int64_t width = call.cut_.head_dim, panel = call.cut_.panel;
  arena.TakeEach(width, origin, fractions, wholes, query_cell, key_cell);
  factors = arena.Take<T>(kKeys, width);
  keys = arena.Take<T>(kKeys, width);
  query_factors = arena.Take<T>(panel, width);
  columns = arena.Take<T>(call.head_dim_, panel);
  queries = arena.Take<T>(call.head_dim_, panel);
  query_rows = arena.Take<T>(call.backward_ ? panel : 0, width);
  d_queries = arena.Take<T>(call.backward_ ? call.head_dim_ : 0, panel);
  d_keys = arena.Take<T>(call.backward_ ? kKeys : 0, width);
}

template class ColumnDecayCall<float>;
template class ColumnDecayCall<double>;

}  // namespace heed::position
