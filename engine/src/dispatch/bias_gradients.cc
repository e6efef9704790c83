#include "dispatch/bias_gradients.h"

#include <algorithm>

#include "simd/tuning.h"

namespace heed::dispatch {

template <class T>
BiasCollection<T>::BiasCollection(core::Arena& arena, const Attention& attention, const attention::Cut& cut, const Shape& shape,
                                  const BiasGradients<T>& wanted)
    : cut_(cut), shape_(shape), wanted_(wanted), content_rows_(attention::ContentRows(attention)) {
  blocks_ = {shape.batch, shape.kv_heads, 1, 1};
  const auto take = [&](int64_t heads, int64_t rows, int64_t width) {
    return arena.Take<T>(shape.batch, heads, cut.chunks, rows, width);
  };
  if (wanted.relative_bias.present()) parts_.relative_bias = take(shape.q_heads, wanted.relative_bias.extent[1], 1);
  if (wanted.slopes.present()) parts_.slopes = take(shape.q_heads, 1, 1);
  if (wanted.content_keys.present()) parts_.content_keys = take(shape.kv_heads, content_rows_, cut.head_dim);
  if (wanted.content_values.present()) parts_.content_values = take(shape.kv_heads, content_rows_, cut.value_dim);
  if (wanted.content_queries.present()) parts_.content_queries = take(shape.kv_heads, content_rows_, cut.head_dim);
  if (wanted.bias.present()) LayDense(arena, attention);
}

template <class T>
void BiasCollection<T>::LayDense(core::Arena& arena, const Attention& attention) {
  dense_extent_ = std::visit([](const auto& bias) { return bias.extent; }, attention.bias->values);
  View<T, 4>& view = parts_.bias;
  if (!by_copy()) {
    // Linear in the sequence: every batch row and head has its own part, and every chunk unless keys tell them apart.
    const bool per_key = dense_extent_[3] != 1;
    const int64_t length = std::max<int64_t>(1, per_key ? shape_.kv_len : shape_.q_len), chunks = per_key ? 1 : cut_.chunks;
    view.data = arena.Take<T>(shape_.batch, shape_.q_heads, chunks, length);
    dense_size_ = shape_.batch * shape_.q_heads * chunks * length;
    view.extent = {shape_.batch, shape_.q_heads, dense_extent_[2], dense_extent_[3]};
    view.stride = {shape_.q_heads * chunks * length, chunks * length, 1, 1};
    parts_.bias_chunk_stride = per_key ? 0 : length;
    return;
  }
  blocks_.batch_groups = dense_extent_[0] == 1 ? 1 : shape_.batch;
  blocks_.head_groups = dense_extent_[1] == 1 ? 1 : shape_.kv_heads;
  const int64_t groups = blocks_.batch_groups * blocks_.head_groups;
  blocks_.rows = groups == 0 ? 0 : shape_.batch * shape_.kv_heads / groups;
  if (groups * cut_.chunks < simd::kBiasTasks) blocks_.copies = std::clamp<int64_t>(blocks_.rows, 1, simd::kBiasCopies);
  if (blocks_.copies == 1) {
    view = wanted_.bias;  // nothing left to sum
    return;
  }
  view = View<T, 4>::Contiguous(nullptr, dense_extent_);
  dense_size_ = view.size();
  view.data = arena.Take<T>(dense_size_, blocks_.copies);
  parts_.bias_copy_stride = dense_size_;
}

template <class T>
void BiasCollection<T>::Clear() const {
  const int64_t rows = shape_.batch * shape_.q_heads * cut_.chunks, kv_rows = shape_.batch * shape_.kv_heads * cut_.chunks;
  if (parts_.relative_bias) std::fill_n(parts_.relative_bias, rows * wanted_.relative_bias.extent[1], T{0});
  if (parts_.slopes) std::fill_n(parts_.slopes, rows, T{0});
  if (parts_.content_keys) std::fill_n(parts_.content_keys, kv_rows * content_rows_ * cut_.head_dim, T{0});
  if (parts_.content_values) std::fill_n(parts_.content_values, kv_rows * content_rows_ * cut_.value_dim, T{0});
  if (parts_.content_queries) std::fill_n(parts_.content_queries, kv_rows * content_rows_ * cut_.head_dim, T{0});
  if (in_place()) {
    const View<T, 4>& out = wanted_.bias;
    for (int64_t b = 0; b < out.extent[0]; ++b)
      for (int64_t h = 0; h < out.extent[1]; ++h)
        for (int64_t i = 0; i < out.extent[2]; ++i)
          for (int64_t j = 0; j < out.extent[3]; ++j) out(b, h, i, j) = T{0};
  } else if (parts_.bias.present()) {
    std::fill_n(parts_.bias.data, dense_size_ * blocks_.copies, T{0});
  }
}

template <class T>
void BiasCollection<T>::Finish() const {
  FinishRelative();
  if (parts_.content_keys) FinishContent(parts_.content_keys, cut_.head_dim, wanted_.content_keys);
  if (parts_.content_values) FinishContent(parts_.content_values, cut_.value_dim, wanted_.content_values);
  if (parts_.content_queries) FinishContent(parts_.content_queries, cut_.head_dim, wanted_.content_queries);
  if (parts_.bias.present() && !in_place()) FinishDense();
}

// Chunks of one head first, then batch rows: the same sums whether chunks ran apart or not.
template <class T>
void BiasCollection<T>::FinishRelative() const {
  const auto sum = [&](const T* parts, int64_t columns, int64_t h, int64_t x) {
    T total = 0;
    for (int64_t b = 0; b < shape_.batch; ++b) {
      const T* row = parts + (b * shape_.q_heads + h) * cut_.chunks * columns + x;
      T of_row = 0;
      for (int64_t chunk = 0; chunk < cut_.chunks; ++chunk) of_row += row[chunk * columns];
      total += of_row;
    }
    return total;
  };
  for (int64_t h = 0; h < shape_.q_heads; ++h) {
    if (parts_.slopes) wanted_.slopes(h) = sum(parts_.slopes, 1, h, 0);
    if (!parts_.relative_bias) continue;
    const int64_t columns = wanted_.relative_bias.extent[1];
    for (int64_t x = 0; x < columns; ++x) wanted_.relative_bias(h, x) = sum(parts_.relative_bias, columns, h, x);
  }
}

template <class T>
void BiasCollection<T>::FinishContent(const T* parts, int64_t padded, const View<T, 2>& gradient) const {
  for (int64_t r = 0; r < gradient.extent[0]; ++r)
    for (int64_t c = 0; c < gradient.extent[1]; ++c) {
      T total = 0;
      for (int64_t part = 0; part < shape_.batch * shape_.kv_heads * cut_.chunks; ++part)
        total += parts[(part * content_rows_ + r) * padded + c];
      gradient(r, c) = total;
    }
}

template <class T>
void BiasCollection<T>::FinishDense() const {
  const View<T, 4>& out = wanted_.bias;
  const int64_t part_rows = by_copy() ? 1 : shape_.batch, part_heads = by_copy() ? 1 : shape_.q_heads;
  const int64_t chunks = parts_.bias_chunk_stride == 0 ? 1 : cut_.chunks;
  const auto begin = [](int64_t extent, int64_t index) { return extent == 1 ? 0 : index; };
  const auto end = [](int64_t extent, int64_t index, int64_t all) { return extent == 1 ? all : index + 1; };
  for (int64_t b = 0; b < out.extent[0]; ++b)
    for (int64_t h = 0; h < out.extent[1]; ++h)
      for (int64_t i = 0; i < out.extent[2]; ++i)
        for (int64_t j = 0; j < out.extent[3]; ++j) {
          T total = 0;
          if (by_copy()) {
            for (int64_t copy = 0; copy < blocks_.copies; ++copy)
              total += parts_.bias.data[copy * dense_size_ + ((b * out.extent[1] + h) * out.extent[2] + i) * out.extent[3] + j];
          } else {
            for (int64_t pb = begin(out.extent[0], b); pb < end(out.extent[0], b, part_rows); ++pb)
              for (int64_t ph = begin(out.extent[1], h); ph < end(out.extent[1], h, part_heads); ++ph)
                for (int64_t chunk = 0; chunk < chunks; ++chunk)
                  total += (&parts_.bias(pb, ph, i, j))[chunk * parts_.bias_chunk_stride];
          }
          out(b, h, i, j) = total;
        }
}

template class BiasCollection<float>;
template class BiasCollection<double>;

}  // namespace heed::dispatch
