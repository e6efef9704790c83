// Positions that count what a query looks for.
#ifndef HEED_POSITION_CONTEXTUAL_POSITION_SCHEME_H_
#define HEED_POSITION_CONTEXTUAL_POSITION_SCHEME_H_

#include <cstdint>

#include "position/table_parts.h"

namespace heed::position {

template <class T>
class ContextualPositionCall : public TableCall<T, 1> {
 public:
  // Gates are summed for so many keys at a time, and the sums of these one after the other: a position is then rounded at its
  // own size once a block, and has the same bits whichever keys share a tile.
  static constexpr int64_t kBlock = 16;

  ContextualPositionCall(const CallFacts& call, const BiasGradients<T>& wanted)
      : TableCall<T, 1>(
            {TableParts<T>(call, SharedBy::kAll, TableParts<T>::One(wanted.contextual_position), call.cut.head_dim)}),
        cut_(call.cut),
        backward_(call.backward()),
        blocks_(attention::DivideUp(call.shape.kv_len, kBlock)),
        rows_(call.attention.contextual_position->table) {}

  bool backward() const { return backward_; }
  const View<const T, 2>& table() const { return rows_.rows(); }

  void LayPrepared(core::Arena& arena) { rows_.Lay(arena); }
  void Prepare() const { rows_.Prepare(); }

  struct Scratch {
    T* products;  // [P, panel] of queries and the table, in powers of two
    T* after;     // [blocks of keys, panel] sum of the gates behind each block
    T* sum;       // [panel] of the gates so far
    // Backward.
    T* d_products;  // [P, panel]
    T* positions;   // [tile, panel] of the tile at hand
    T* slopes;      // [tile, panel] of its gates
    T* d_gates;     // [panel] gradient of a gate from the keys before it

    Scratch(core::Arena& arena, const ContextualPositionCall& call) {
      const int64_t panel = call.cut_.panel, rows = call.table().extent[0];
      const int64_t backward = call.backward_ ? 1 : 0;
      products = arena.Take<T>(rows, panel);
      after = arena.Take<T>(call.blocks_, panel);
      sum = arena.Take<T>(panel);
      d_products = arena.Take<T>(backward * rows, panel);
      positions = arena.Take<T>(backward * call.cut_.tile, panel);
      slopes = arena.Take<T>(backward * call.cut_.tile, panel);
      d_gates = arena.Take<T>(backward * panel);
    }
  };

 private:
  const attention::Cut cut_;
  bool backward_;
  int64_t blocks_;
  TableRows<T> rows_;
};

struct ContextualPositionScheme : Scheme<ContextualPositionScheme> {
  // The gradient of a gate is a sum over all keys before it.
  static constexpr bool kTakesAllKeys = true;
  static bool Present(const Attention& attention) { return attention.contextual_position.has_value(); }
  static void Check(const Attention& attention, const Shape& shape);
  template <class Options, class Gradients, class Visit>
  static void ForEachTable(Options& attention, Gradients& gradients, const Visit& visit) {
    auto& option = attention.contextual_position;
    visit("contextual_position.table", option ? &option->table : nullptr, "d_contextual_position",
          gradients.contextual_position);
  }
  template <class T>
  using Call = ContextualPositionCall<T>;
};

}  // namespace heed::position

#endif  // HEED_POSITION_CONTEXTUAL_POSITION_SCHEME_H_
