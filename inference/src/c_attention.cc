// Attention and its cache behind the C header: arrays and options are unpacked to views of their types.
#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <variant>

#include "c_call.h"
#include "heed/attention.h"
#include "heed/cache.h"
#include "heed/heed.h"

struct heed_cache {
  std::variant<heed::KeyValueCache<float>, heed::KeyValueCache<double>> tokens;
};

namespace heed {
namespace {

template <class T, int Rank>
View<T, Rank> ViewOf(const heed_array& array) {
  View<T, Rank> view;
  view.data = static_cast<T*>(array.data);
  if (!view.present()) return {};
  std::copy_n(array.extent, Rank, view.extent.begin());
  std::copy_n(array.stride, Rank, view.stride.begin());
  return view;
}

// A table of rows. Nothing has checked the extents yet, and their product may overflow.
template <class T>
View<T, 2> RowsOf(T* data, const std::array<int64_t, 2>& extent) {
  return {data, extent, {extent[1], 1}};
}

// With the shapes that the pointers of the options have. q, Nk: of the call.
template <class T>
Attention Unpacked(const heed_attention* options, const heed_array& q, int64_t kv_len) {
  using Wide = Accum<T>;
  Attention attention;
  if (options == nullptr) return attention;
  CheckBegun("attention", options, "heed_attention");
  const int64_t batch = q.extent[0], heads = q.extent[1], q_len = q.extent[2];
  if (!std::isnan(options->scale)) attention.scale = options->scale;
  if (options->softcap != 0.0) attention.softcap = options->softcap;
  if (options->causal < HEED_CAUSAL_NONE || options->causal > HEED_CAUSAL_TOP_LEFT) {
    throw InvalidArgument("attention: causal: expected one of HEED_CAUSAL_*, got " + std::to_string(options->causal));
  }
  attention.causal = static_cast<Causal>(options->causal);
  attention.window = {options->window_left, options->window_right};
  if (options->query_lengths != nullptr) attention.query_lengths = Lengths::PerBatch(options->query_lengths, batch);
  if (options->key_lengths != nullptr) {
    attention.key_lengths = options->key_lengths_per_query != 0 ? Lengths::PerQuery(options->key_lengths, batch, q_len)
                                                                : Lengths::PerBatch(options->key_lengths, batch);
  }
  const auto listed = [](const int64_t* list, int64_t count) { return View<const int64_t, 2>{list, {1, count}, {count, 1}}; };
  if (options->query_positions != nullptr) attention.query_positions.list = listed(options->query_positions, q_len);
  if (options->key_positions != nullptr) attention.key_positions.list = listed(options->key_positions, kv_len);
  if (options->bias.data != nullptr) attention.bias = Bias{ViewOf<const Wide, 4>(options->bias)};
  if (options->relative_bias != nullptr) {
    if (options->max_distance < 0 || options->max_distance > int64_t{1} << 40) {
      throw InvalidArgument("attention: max_distance: expected 0 to 2^40, got " + std::to_string(options->max_distance));
    }
    attention.relative_bias =
        RelativeBias{RowsOf(static_cast<const Wide*>(options->relative_bias), {heads, 2 * options->max_distance + 1})};
  }
  if (options->slopes != nullptr) {
    attention.slope_bias = SlopeBias{View<const Wide, 1>::Contiguous(static_cast<const Wide*>(options->slopes), {heads}), true};
  }
  attention.dropout = {options->dropout, options->dropout_seed, 0};
  if (options->empty_row != HEED_EMPTY_ROW_ZERO && options->empty_row != HEED_EMPTY_ROW_UNIFORM) {
    throw InvalidArgument("attention: empty_row: expected one of HEED_EMPTY_ROW_*, got " + std::to_string(options->empty_row));
  }
  attention.empty_row = static_cast<EmptyRow>(options->empty_row);
  return attention;
}

// Calls with a number of the C++ type of `type`.
template <class Call>
void WithType(heed_type type, const Call& call) {
  switch (type) {
    case HEED_FLOAT32:
      return call(float{});
    case HEED_FLOAT64:
      return call(double{});
    case HEED_BFLOAT16:
      return call(BFloat16{});
    case HEED_FLOAT16:
      return call(Float16{});
  }
  throw InvalidArgument("type: expected HEED_FLOAT32, HEED_FLOAT64, HEED_BFLOAT16 or HEED_FLOAT16, got " +
                        std::to_string(type));
}

template <class T>
BiasGradients<Accum<T>> TableGradients(const Attention& attention, const heed_gradients& gradients) {
  using Wide = Accum<T>;
  BiasGradients<Wide> tables;
  tables.bias = ViewOf<Wide, 4>(gradients.bias);
  if (gradients.relative_bias != nullptr) {
    if (!attention.relative_bias) throw InvalidArgument("gradients: relative_bias: attention has no relative_bias");
    const auto& extent = std::get<View<const Wide, 2>>(attention.relative_bias->table).extent;
    tables.relative_bias = RowsOf(static_cast<Wide*>(gradients.relative_bias), extent);
  }
  if (gradients.slopes != nullptr) {
    if (!attention.slope_bias) throw InvalidArgument("gradients: slopes: attention has no slopes");
    const auto& extent = std::get<View<const Wide, 1>>(attention.slope_bias->slopes).extent;
    tables.slopes = View<Wide, 1>::Contiguous(static_cast<Wide*>(gradients.slopes), extent);
  }
  return tables;
}

}  // namespace
}  // namespace heed

extern "C" {

heed_array heed_contiguous(const void* data, int64_t extent0, int64_t extent1, int64_t extent2, int64_t extent3) {
  const auto stride = [](int64_t step, int64_t extent) {
    int64_t product = 0;  // what overflows is refused where the array is used
    return __builtin_mul_overflow(step, extent, &product) ? INT64_MAX : product;
  };
  const int64_t stride1 = stride(extent3, extent2);
  return {const_cast<void*>(data), {extent0, extent1, extent2, extent3}, {stride(stride1, extent1), stride1, extent3, 1}};
}

heed_attention heed_attention_default(void) {
  heed_attention attention{};
  attention.struct_bytes = sizeof(heed_attention);
  attention.scale = std::nan("");
  attention.window_left = attention.window_right = -1;
  return attention;
}

heed_status heed_forward(const heed_attention* attention, heed_type type, heed_array q, heed_array k, heed_array v,
                         heed_array out, heed_array lse) {
  heed_forward_arrays arrays = heed_forward_arrays_default();
  arrays.q = q, arrays.k = k, arrays.v = v, arrays.out = out, arrays.lse = lse;
  return heed_forward_by_name(attention, type, &arrays);
}

heed_forward_arrays heed_forward_arrays_default(void) {
  heed_forward_arrays arrays{};
  arrays.struct_bytes = sizeof(heed_forward_arrays);
  return arrays;
}

heed_status heed_forward_by_name(const heed_attention* attention, heed_type type, const heed_forward_arrays* arrays) {
  return heed::Guarded([&] {
    heed::CheckBegun("arrays", arrays, "heed_forward_arrays");
    heed::WithType(type, [&](auto zero) {
      using T = decltype(zero);
      using Wide = heed::Accum<T>;
      heed::Forward<T>(heed::Unpacked<T>(attention, arrays->q, arrays->k.extent[2]),
                       {.q = heed::ViewOf<const T, 4>(arrays->q),
                        .k = heed::ViewOf<const T, 4>(arrays->k),
                        .v = heed::ViewOf<const T, 4>(arrays->v)},
                       {.out = heed::ViewOf<T, 4>(arrays->out),
                        .lse = heed::ViewOf<Wide, 3>(arrays->lse),
                        .remainder = heed::ViewOf<heed::BFloat16, 4>(arrays->remainder),
                        .correction = heed::ViewOf<Wide, 3>(arrays->correction)},
                       heed::ThreadWorkspace(), heed::CallThreads().executor());
    });
  });
}

heed_status heed_backward(const heed_attention* attention, heed_type type, heed_array q, heed_array k, heed_array v,
                          heed_array out, heed_array lse, heed_array d_out, const heed_gradients* gradients) {
  heed_backward_arrays arrays = heed_backward_arrays_default();
  arrays.q = q, arrays.k = k, arrays.v = v, arrays.out = out, arrays.lse = lse, arrays.d_out = d_out;
  return heed_backward_by_name(attention, type, &arrays, gradients);
}

heed_backward_arrays heed_backward_arrays_default(void) {
  heed_backward_arrays arrays{};
  arrays.struct_bytes = sizeof(heed_backward_arrays);
  return arrays;
}

heed_status heed_backward_by_name(const heed_attention* attention, heed_type type, const heed_backward_arrays* arrays,
                                  const heed_gradients* gradients) {
  return heed::Guarded([&] {
    heed::CheckBegun("arrays", arrays, "heed_backward_arrays");
    heed::CheckGiven("gradients", gradients);
    heed::WithType(type, [&](auto zero) {
      using T = decltype(zero);
      using Wide = heed::Accum<T>;
      const heed::Attention options = heed::Unpacked<T>(attention, arrays->q, arrays->k.extent[2]);
      heed::Backward<T>(options,
                        {.q = heed::ViewOf<const T, 4>(arrays->q),
                         .k = heed::ViewOf<const T, 4>(arrays->k),
                         .v = heed::ViewOf<const T, 4>(arrays->v),
                         .out = heed::ViewOf<const T, 4>(arrays->out),
                         .lse = heed::ViewOf<const Wide, 3>(arrays->lse),
                         .d_out = heed::ViewOf<const T, 4>(arrays->d_out),
                         .d_lse = heed::ViewOf<const Wide, 3>(arrays->d_lse),
                         .remainder = heed::ViewOf<const heed::BFloat16, 4>(arrays->remainder),
                         .correction = heed::ViewOf<const Wide, 3>(arrays->correction)},
                        {.q = heed::ViewOf<T, 4>(gradients->q),
                         .k = heed::ViewOf<T, 4>(gradients->k),
                         .v = heed::ViewOf<T, 4>(gradients->v),
                         .biases = heed::TableGradients<T>(options, *gradients)},
                        heed::ThreadWorkspace(), heed::CallThreads().executor());
    });
  });
}

heed_status heed_cache_create(heed_type type, int64_t batch, int64_t kv_heads, int64_t head_dim, int64_t value_dim,
                              int64_t capacity, heed_cache** cache) {
  return heed::Guarded([&] {
    heed::CheckGiven("cache", cache);
    if (type == HEED_FLOAT32) {
      *cache = new heed_cache{heed::KeyValueCache<float>(batch, kv_heads, head_dim, value_dim, capacity)};
    } else if (type == HEED_FLOAT64) {
      *cache = new heed_cache{heed::KeyValueCache<double>(batch, kv_heads, head_dim, value_dim, capacity)};
    } else {
      throw heed::InvalidArgument("type: expected HEED_FLOAT32 or HEED_FLOAT64, got " + std::to_string(type));
    }
  });
}

void heed_cache_destroy(heed_cache* cache) { delete cache; }

int64_t heed_cache_length(const heed_cache* cache) {
  if (cache == nullptr) return 0;
  return std::visit([](const auto& tokens) { return tokens.length(); }, cache->tokens);
}

heed_status heed_cache_append(heed_cache* cache, heed_array k, heed_array v) {
  return heed::Guarded([&] {
    heed::CheckGiven("cache", cache);
    const auto append = [&]<class T>(heed::KeyValueCache<T>& tokens) {
      tokens.Append(heed::ViewOf<const T, 4>(k), heed::ViewOf<const T, 4>(v));
    };
    std::visit(append, cache->tokens);
  });
}

heed_status heed_cache_truncate(heed_cache* cache, int64_t length) {
  return heed::Guarded([&] {
    heed::CheckGiven("cache", cache);
    std::visit([&](auto& tokens) { tokens.Truncate(length); }, cache->tokens);
  });
}

heed_status heed_cache_attend(const heed_cache* cache, const heed_attention* attention, heed_array q, heed_array out,
                              heed_array lse) {
  return heed::Guarded([&] {
    heed::CheckGiven("cache", cache);
    const auto attend = [&]<class T>(const heed::KeyValueCache<T>& tokens) {
      tokens.Attend(heed::Unpacked<T>(attention, q, tokens.length()), heed::ViewOf<const T, 4>(q), heed::ViewOf<T, 4>(out),
                    heed::ViewOf<heed::Accum<T>, 3>(lse), heed::ThreadWorkspace(), heed::CallThreads().executor());
    };
    std::visit(attend, cache->tokens);
  });
}

}  // extern "C"
