// The hooks that one call asks for, in the order of heed/attention.h.
#if defined(HEED_POSITION_HOOK_SET_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_POSITION_HOOK_SET_INL_H_
#undef HEED_POSITION_HOOK_SET_INL_H_
#else
#define HEED_POSITION_HOOK_SET_INL_H_
#endif

#include <array>
#include <optional>
#include <span>

#include "attention/problem.h"
#include "position/content_offset-inl.h"
#include "position/content_query-inl.h"
#include "position/dense_bias-inl.h"
#include "position/offset_bias-inl.h"
#include "position/slope_bias-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {

template <class T>
class HookSet {
 public:
  HookSet(const attention::Problem& problem, const attention::HookScratch<T>& scratch) {
    Make(problem, scratch, false, {}, {}, {}, {}, {});
  }

  // For one chunk of the backward pass. copy: which copy of a dense bias's gradient the task adds to.
  HookSet(const attention::BackwardProblem<T>& problem, const attention::HookScratch<T>& scratch, int64_t chunk, int64_t copy) {
    const attention::BiasParts<T>& parts = problem.parts;
    const Shape& shape = problem.plan.shape();
    const attention::Cut& cut = problem.cut;
    typename OffsetBias<T>::Gradient relative;
    if (parts.relative_bias) {
      const int64_t columns = std::visit([](const auto& t) { return t.extent[1]; }, problem.attention.relative_bias->table);
      relative = {parts.relative_bias + chunk * columns, shape.q_heads * cut.chunks * columns, cut.chunks * columns};
    }
    typename DistanceBias<T>::Gradient slopes;
    if (parts.slopes) slopes = {parts.slopes + chunk, shape.q_heads * cut.chunks, cut.chunks};
    const int64_t rows = attention::ContentRows(problem.attention);
    const int64_t keys = rows * cut.head_dim, values = rows * cut.value_dim;
    typename ContentOffset<T>::Gradient content;
    content.keys_head_stride = cut.chunks * keys;
    content.keys_batch_stride = shape.kv_heads * content.keys_head_stride;
    content.values_head_stride = cut.chunks * values;
    content.values_batch_stride = shape.kv_heads * content.values_head_stride;
    if (parts.content_keys) content.d_keys = parts.content_keys + chunk * keys;
    if (parts.content_values) content.d_values = parts.content_values + chunk * values;
    typename ContentQuery<T>::Gradient queries;
    if (parts.content_queries)
      queries = {parts.content_queries + chunk * keys, content.keys_batch_stride, content.keys_head_stride};
    View<T, 4> dense = parts.bias;
    if (dense.present()) dense.data += copy * parts.bias_copy_stride + chunk * parts.bias_chunk_stride;
    Make(problem, scratch, true, relative, slopes, content, queries, dense);
  }

  HookSet(const HookSet&) = delete;
  HookSet& operator=(const HookSet&) = delete;

  std::span<PositionHook<T>* const> hooks() const { return {hooks_.data(), count_}; }

 private:
  void Make(const attention::Problem& problem, const attention::HookScratch<T>& scratch, bool backward,
            const typename OffsetBias<T>::Gradient& relative, const typename DistanceBias<T>::Gradient& slopes,
            const typename ContentOffset<T>::Gradient& content, const typename ContentQuery<T>::Gradient& queries,
            const View<T, 4>& dense) {
    const Attention& attention = problem.attention;
    const auto add = [&](auto& hook, const auto&... arguments) {
      hook.emplace(arguments...);
      hooks_[count_++] = &*hook;
    };
    const int64_t rows = attention::ContentRows(attention);
    if (rows > 0 && (attention.content_bias->keys || attention.content_bias->values))
      add(content_, problem, rows, scratch, backward, content);
    if (rows > 0 && attention.content_bias->queries) add(queries_, problem, rows, scratch, backward, queries);
    if (attention.bias) add(dense_, attention.bias->values, scratch, dense);
    if (attention.relative_bias) add(relative_, attention.relative_bias->table, problem.plan, problem.cut, scratch, relative);
    if (attention.slope_bias) add(slopes_, *attention.slope_bias, problem.plan, slopes);
  }

  std::optional<ContentOffset<T>> content_;
  std::optional<ContentQuery<T>> queries_;
  std::optional<DenseBias<T>> dense_;
  std::optional<OffsetBias<T>> relative_;
  std::optional<DistanceBias<T>> slopes_;
  std::array<PositionHook<T>*, 5> hooks_{};
  std::size_t count_ = 0;
};

}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
