// How the products of a call are laid out in vectors.
#ifndef HEED_ATTENTION_LAYOUT_H_
#define HEED_ATTENTION_LAYOUT_H_

#include "core/operand.h"
#include "heed/attention.h"

namespace heed::attention {

// Each layout has its classes in score_products-inl.h, panel_output-inl.h, tangent_output-inl.h, row_output-inl.h and
// pair_gradients-inl.h; no other file asks which one a call has, and tests/house sees to that.
enum class Layout {
  kLanes,         // queries stand in lanes, keys are broadcast, in the type of computation
  kRows,          // few queries: the elements of keys and values stand in lanes (attention/few_queries-inl.h)
  kPairs,         // lanes of bfloat16 in pairs (simd/pair_product.h) for products of inputs with inputs, which are exact so
  kRoundedPairs,  // for those with weights and gradients of scores too, which are then rounded
};

// Whether the queries that share a key head are so few that the elements of keys stand in lanes.
bool HasFewQueries(const Shape& shape);

// The one place where it is chosen. element: of queries, keys and values; tangents: whether the call has some, whose products
// are in lanes alone.
Layout LayoutOf(const Attention& attention, const Shape& shape, core::Element element, bool tangents = false);

}  // namespace heed::attention

#endif  // HEED_ATTENTION_LAYOUT_H_
