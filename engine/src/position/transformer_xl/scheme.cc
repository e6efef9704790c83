#include "position/transformer_xl/scheme.h"

#include <numbers>
#include <string>

#include "core/refuse.h"

namespace heed::position {

void TransformerXlScheme::Check(const Attention& attention, const Shape& shape) {
  const auto extent = ExtentOf(attention.transformer_xl->positions);
  const std::string heads = std::to_string(shape.q_heads), width = std::to_string(shape.head_dim);
  if (extent[0] != shape.q_heads || extent[1] % 2 != 1 || extent[2] != shape.head_dim)
    core::Refuse("transformer_xl.positions",
                 "expected [Hq, 2M+1, D] with Hq = " + heads + " and D = " + width + ", got " + core::ShapeText(extent));
  CheckOffsetRows("transformer_xl.positions", extent[1], kMostMultipliedOffsets);
  if (attention.transformer_xl->bias) {
    const auto bias = ExtentOf(*attention.transformer_xl->bias);
    if (bias[0] != shape.q_heads || bias[1] != shape.head_dim)
      core::Refuse("transformer_xl.bias", "expected [Hq, D] = [" + heads + ", " + width + "], got " + core::ShapeText(bias));
  }
  CheckWholePositions("transformer_xl", attention);
}

template <class T>
TransformerXlCall<T>::TransformerXlCall(const CallFacts& call, const BiasGradients<T>& wanted)
    : TableCall<T, 2>(
          {TableParts<T>(call, SharedBy::kBatch, wanted.transformer_xl_positions, call.cut.head_dim),
           TableParts<T>(call, SharedBy::kBatchInParts, TableParts<T>::Rows(wanted.transformer_xl_bias), call.shape.head_dim)}),
      option_(*call.attention.transformer_xl),
      cut_(call.cut),
      backward_(call.backward()),
      extent_(ExtentOf(option_.positions)),
      scale_(attention::ScaleOf(call.attention, call.shape)) {
  if (const auto* own = std::get_if<View<const T, 3>>(&option_.positions)) positions_ = *own;
}

template <class T>
View<const T, 2> TransformerXlCall<T>::Table(int64_t head) const {
  return {
      positions_.data + head * positions_.stride[0], {extent_[1], extent_[2]}, {positions_.stride[1], positions_.stride[2]}};
}

template <class T>
void TransformerXlCall<T>::LayPrepared(core::Arena& arena) {
  if (!std::holds_alternative<View<const T, 3>>(option_.positions)) {
    copy_ = arena.Take<T>(extent_[0], extent_[1], extent_[2]);
    positions_ = View<const T, 3>::Contiguous(copy_, extent_);
  }
  if (option_.bias) constants_ = arena.Take<T>(extent_[0], extent_[1]);
}

template <class T>
void TransformerXlCall<T>::Prepare() const {
  const auto for_each = [&](const auto& visit) {
    std::visit(
        [&](const auto& positions) {
          for (int64_t h = 0; h < extent_[0]; ++h)
            for (int64_t r = 0; r < extent_[1]; ++r)
              for (int64_t c = 0; c < extent_[2]; ++c) visit(h, r, c, static_cast<double>(positions(h, r, c)));
        },
        option_.positions);
  };
  if (copy_)
    for_each([&](int64_t h, int64_t r, int64_t c, double entry) {
      copy_[(h * extent_[1] + r) * extent_[2] + c] = static_cast<T>(entry);
    });
  if (!constants_) return;
  const double factor = scale_ * std::numbers::log2e;
  std::visit(
      [&](const auto& bias) {
        double sum = 0;
        for_each([&](int64_t h, int64_t r, int64_t c, double entry) {
          sum = (c == 0 ? 0.0 : sum) + static_cast<double>(bias(h, c)) * entry;
          if (c + 1 == extent_[2]) constants_[h * extent_[1] + r] = static_cast<T>(factor * sum);
        });
      },
      *option_.bias);
}

template class TransformerXlCall<float>;
template class TransformerXlCall<double>;

}  // namespace heed::position
