#include "batch_attention.h"

#include <type_traits>
#include <variant>

#include "heed/thread_workspace.h"

namespace heed {
namespace {

// The engine sums the products of so few queries in another order, which the extents of a call decide.
constexpr int64_t kFewSteps = 4;

// The first steps of `count` rows from b on.
template <class T>
View<T, 4> RowsOf(View<T, 4> all, int64_t b, int64_t count, int64_t steps) {
  return {all.data + b * all.stride[0], {count, all.extent[1], steps, all.extent[3]}, all.stride};
}
Positions RowsOf(Positions positions, int64_t b, int64_t count, int64_t steps) {
  const auto narrow = [&](auto& list) {
    if constexpr (!std::is_same_v<std::decay_t<decltype(list)>, std::monostate>) {
      list.data += list.extent[0] == 1 ? 0 : b * list.stride[0];
      list.extent = {list.extent[0] == 1 ? 1 : count, steps};
    }
  };
  std::visit(narrow, positions.list);
  return positions;
}

}  // namespace

void ForwardBatch(const Attention& attention, View<const float, 4> q, View<const float, 4> k, View<const float, 4> v,
                  View<float, 4> out, const int64_t* lengths, Executor& executor) {
  heed::Forward(attention, q, k, v, out, {}, ThreadWorkspace(), executor);
  const int64_t steps = k.extent[2];
  for (int64_t b = 0, end = 0; lengths != nullptr && b < q.extent[0]; b = end) {
    const int64_t length = lengths[b];
    for (end = b + 1; end < q.extent[0] && lengths[end] == length;) ++end;
    if (length <= 0 || length >= steps || length > kFewSteps) continue;
    Attention alone = attention;
    alone.key_lengths = {};
    alone.query_positions = RowsOf(attention.query_positions, b, end - b, length);
    alone.key_positions = RowsOf(attention.key_positions, b, end - b, length);
    heed::Forward(alone, RowsOf(q, b, end - b, length), RowsOf(k, b, end - b, length), RowsOf(v, b, end - b, length),
                  RowsOf(out, b, end - b, length), {}, ThreadWorkspace(), executor);
  }
}

}  // namespace heed
