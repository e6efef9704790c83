#include "position/dense_bias/scheme.h"

#include <algorithm>
#include <limits>

#include "core/validation.h"
#include "simd/tuning.h"

namespace heed::position {

void DenseBiasScheme::Check(const Attention& attention, const Shape& shape) {
  std::visit([&](const auto& bias) { core::CheckBroadcast("bias", bias, shape); }, attention.bias->values);
}

bool DenseBiasScheme::Sight::Hidden(int64_t b, int64_t h, int64_t i, int64_t j) const {
  return std::visit(
      [&](const auto& entries) {
        return static_cast<double>(core::Broadcast(entries, b, h, i, j)) == -std::numeric_limits<double>::infinity();
      },
      bias.values);
}

template <class T>
DenseBiasCall<T>::DenseBiasCall(const CallFacts& call, const BiasGradients<T>& wanted, const BiasGradients<T>& tangents)
    : bias_(call.attention.bias->values),
      shape_(call.shape),
      cut_(call.cut),
      wanted_(call.backward() ? wanted.bias : View<T, 4>{}),
      tangent_(call.backward() ? tangents.bias : wanted.bias) {}

template <class T>
void DenseBiasCall<T>::ShareIn(Blocks& blocks) const {
  if (!wanted_.present() || !by_copy()) return;
  blocks.Share(wanted_.extent[0] == 1, wanted_.extent[1] == 1, attention::DivideUp(simd::kBiasTasks, cut_.chunks),
               simd::kBiasCopies);
}

template <class T>
int64_t DenseBiasCall<T>::part_length() const {
  return std::max<int64_t>(1, wanted_.extent[3] != 1 ? shape_.kv_len : shape_.q_len);
}

template <class T>
void DenseBiasCall<T>::LayParts(core::Arena& arena, const Blocks& blocks) {
  if (!wanted_.present()) return;
  if (!by_copy()) {
    const bool per_key = wanted_.extent[3] != 1;
    const int64_t length = part_length(), chunks = per_key ? 1 : cut_.chunks;
    parts_ = {arena.Take<T>(shape_.batch, shape_.q_heads, chunks, length),
              {shape_.batch, shape_.q_heads, wanted_.extent[2], wanted_.extent[3]},
              {shape_.q_heads * chunks * length, chunks * length, 1, 1}};
    chunk_stride_ = per_key ? 0 : length;
    return;
  }
  copies_ = blocks.copies();
  if (in_place()) {
    parts_ = wanted_;  // nothing left to sum
    return;
  }
  parts_ = View<T, 4>::Contiguous(nullptr, wanted_.extent);
  copy_stride_ = parts_.size();
  parts_.data = arena.Take<T>(copy_stride_, copies_);
}

template <class T>
View<T, 4> DenseBiasCall<T>::Part(int64_t block, int64_t chunk) const {
  View<T, 4> part = parts_;
  if (part.present()) part.data += block % copies_ * copy_stride_ + chunk * chunk_stride_;
  return part;
}

template <class T>
void DenseBiasCall<T>::Clear(int64_t sum) const {
  const int64_t b = sum / wanted_.extent[1], h = sum % wanted_.extent[1];
  if (in_place()) {
    for (int64_t i = 0; i < wanted_.extent[2]; ++i)
      for (int64_t j = 0; j < wanted_.extent[3]; ++j) wanted_(b, h, i, j) = T{0};
  } else if (by_copy()) {
    for (int64_t copy = 0; copy < copies_; ++copy)
      std::fill_n(&parts_(b, h, 0, 0) + copy * copy_stride_, wanted_.extent[2] * wanted_.extent[3], T{0});
  } else if (sum == 0) {
    std::fill_n(parts_.data, parts_.extent[0] * parts_.stride[0], T{0});
  }
}

template <class T>
void DenseBiasCall<T>::Finish(int64_t sum) const {
  if (in_place()) return;
  const int64_t b = sum / wanted_.extent[1], h = sum % wanted_.extent[1];
  for (int64_t i = 0; i < wanted_.extent[2]; ++i) {
    if (by_copy() && wanted_.stride[3] == 1) {
      SumRow(&parts_(b, h, i, 0), &wanted_(b, h, i, 0));
      continue;
    }
    for (int64_t j = 0; j < wanted_.extent[3]; ++j) wanted_(b, h, i, j) = SumOf(b, h, i, j);
  }
}

template <class T>
void DenseBiasCall<T>::SumRow(const T* row, T* total) const {
  for (int64_t j = 0; j < wanted_.extent[3]; ++j) total[j] = T{0} + row[j];
  for (int64_t copy = 1; copy < copies_; ++copy) {
    row += copy_stride_;
    for (int64_t j = 0; j < wanted_.extent[3]; ++j) total[j] += row[j];
  }
}

template <class T>
T DenseBiasCall<T>::SumOf(int64_t b, int64_t h, int64_t i, int64_t j) const {
  T total = 0;
  if (by_copy()) {
    for (int64_t copy = 0; copy < copies_; ++copy) total += (&parts_(b, h, i, j))[copy * copy_stride_];
    return total;
  }
  const int64_t chunks = chunk_stride_ == 0 ? 1 : cut_.chunks;
  const bool one_row = wanted_.extent[0] != 1, one_head = wanted_.extent[1] != 1;
  for (int64_t row = one_row ? b : 0; row < (one_row ? b + 1 : shape_.batch); ++row)
    for (int64_t head = one_head ? h : 0; head < (one_head ? h + 1 : shape_.q_heads); ++head)
      for (int64_t chunk = 0; chunk < chunks; ++chunk) total += (&parts_(row, head, i, j))[chunk * chunk_stride_];
  return total;
}

template class DenseBiasCall<float>;
template class DenseBiasCall<double>;

}  // namespace heed::position
