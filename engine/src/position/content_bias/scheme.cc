#include "position/content_bias/scheme.h"

#include <numbers>
#include <string>

#include "core/arrays.h"
#include "core/refuse.h"

namespace heed::position {
namespace {

// Of the tables, which all have as many.
int64_t RowsOf(const ContentBias& bias) {
  if (bias.head_queries) return ExtentOf(*bias.head_queries)[1];
  if (!bias.keys && !bias.values && !bias.queries) return 0;
  return ExtentOf(bias.keys ? *bias.keys : bias.values ? *bias.values : *bias.queries)[0];
}

// rows: of the table `first` that was checked before, 0 if there is none.
void CheckHeadQueries(const ContentBias& bias, const Shape& shape, int64_t rows, const char* first) {
  constexpr const char* kName = "content_bias.head_queries";
  if (bias.queries) core::Refuse(kName, "expected content_bias.queries or this, not both");
  const auto extent = ExtentOf(*bias.head_queries);
  if (extent[0] != shape.q_heads || extent[1] % 2 != 1 || extent[2] != shape.head_dim)
    core::Refuse(kName, "expected [Hq, 2M+1, D] with Hq = " + std::to_string(shape.q_heads) +
                            " and D = " + std::to_string(shape.head_dim) + ", got " + core::ShapeText(extent));
  if (rows != 0 && extent[1] != rows)
    core::Refuse(kName, "expected " + std::to_string(rows) + " rows as " + first + " has, got " + core::ShapeText(extent));
  CheckOffsetRows(kName, extent[1], kMostMultipliedOffsets);
  core::CheckExtents<2>(kName, {extent[1], std::max(shape.head_dim, shape.value_dim)});
}

// Of the table beside queries, or of those that every query head has.
template <class T>
TableParts<T> QueriesParts(const CallFacts& call, const BiasGradients<T>& wanted) {
  if (call.attention.content_bias->head_queries)
    return {call, SharedBy::kBatch, wanted.content_head_queries, call.cut.head_dim};
  return {call, SharedBy::kAll, TableParts<T>::One(wanted.content_queries), call.cut.head_dim};
}

}  // namespace

void ContentBiasScheme::Check(const Attention& attention, const Shape& shape) {
  const ContentBias& bias = *attention.content_bias;
  if (!bias.keys && !bias.values && !bias.queries && !bias.head_queries)
    core::Refuse("content_bias", "expected keys, values or queries");
  int64_t rows = 0;
  const char* first = nullptr;
  const auto check = [&](const char* name, const std::optional<Table<2>>& table, int64_t width) {
    if (!table) return;
    const auto extent = ExtentOf(*table);
    if (extent[0] % 2 != 1 || (width >= 0 && extent[1] != width))
      core::Refuse(name, "expected [2M+1, " + (width < 0 ? "Dv" : std::to_string(width)) + "], got " + core::ShapeText(extent));
    if (rows != 0 && extent[0] != rows)
      core::Refuse(name, "expected " + std::to_string(rows) + " rows as " + first + " has, got " + core::ShapeText(extent));
    CheckOffsetRows(name, extent[0], kMostMultipliedOffsets);
    // Kernels hold a row of either width for each offset, whichever tables there are.
    core::CheckExtents<2>(name, {extent[0], std::max(shape.head_dim, shape.value_dim)});
    if (rows == 0) first = name;
    rows = extent[0];
  };
  check("content_bias.keys", bias.keys, shape.head_dim);
  check("content_bias.queries", bias.queries, shape.head_dim);
  check("content_bias.values", bias.values, shape.value_dim);
  if (bias.head_queries) CheckHeadQueries(bias, shape, rows, first);
  CheckWholePositions("content_bias", attention);
}

template <class T>
ContentBiasCall<T>::ContentBiasCall(const CallFacts& call, const BiasGradients<T>& wanted)
    : TableCall<T, 3>({TableParts<T>(call, SharedBy::kAll, TableParts<T>::One(wanted.content_keys), call.cut.head_dim),
                       TableParts<T>(call, SharedBy::kAll, TableParts<T>::One(wanted.content_values), call.cut.value_dim),
                       QueriesParts<T>(call, wanted)}),
      bias_(*call.attention.content_bias),
      cut_(call.cut),
      backward_(call.backward()),
      rows_(RowsOf(bias_)),
      scale_(attention::ScaleOf(call.attention, call.shape)),
      walked_(std::min(backward_ ? cut_.chunk : cut_.split, attention::RoundUp(call.shape.kv_len, cut_.tile))),
      listed_(call.attention.query_positions.listed() || call.attention.key_positions.listed()) {
  if (bias_.keys) keys_.emplace(*bias_.keys);
  if (bias_.values) values_.emplace(*bias_.values);
  query_tables_ = bias_.head_queries ? call.shape.q_heads : bias_.queries ? 1 : 0;
}

template <class T>
void ContentBiasCall<T>::LayPrepared(core::Arena& arena) {
  if (keys_) keys_->Lay(arena);
  if (values_) values_->Lay(arena);
  if (!has_queries()) return;
  query_columns_ = arena.Take<T>(query_tables_, columns(), cut_.head_dim);
  if (backward_) query_rows_ = arena.Take<T>(query_tables_, rows_, cut_.head_dim);
}

template <class T>
template <class Visit>
void ContentBiasCall<T>::ForEachQueryTable(const Visit& visit) const {
  if (bias_.queries) std::visit([&](const auto& table) { visit(0, table); }, *bias_.queries);
  if (!bias_.head_queries) return;
  std::visit(
      [&]<class V>(const View<const V, 3>& tables) {
        for (int64_t h = 0; h < query_tables_; ++h)
          visit(h, View<const V, 2>{tables.data + h * tables.stride[0],
                                    {tables.extent[1], tables.extent[2]},
                                    {tables.stride[1], tables.stride[2]}});
      },
      *bias_.head_queries);
}

template <class T>
void ContentBiasCall<T>::Prepare() const {
  if (keys_) keys_->Prepare();
  if (values_) values_->Prepare();
  const double factor = scale_ * std::numbers::log2e;
  ForEachQueryTable([&](int64_t head, const auto& table) {
    for (int64_t c = 0; c < table.extent[1]; ++c) {
      T* column = query_columns_ + (head * cut_.head_dim + c) * columns();
      for (int64_t r = 0; r < rows_; ++r) column[r] = static_cast<T>(factor * static_cast<double>(table(r, c)));
      std::fill(column + rows_, column + columns(), T{0});
    }
    for (int64_t r = 0; backward_ && r < rows_; ++r) {
      T* row = query_rows_ + (head * rows_ + r) * cut_.head_dim;
      for (int64_t c = 0; c < table.extent[1]; ++c) row[c] = static_cast<T>(scale_ * static_cast<double>(table(r, c)));
      std::fill(row + table.extent[1], row + cut_.head_dim, T{0});
    }
  });
}

template <class T>
int64_t ContentBiasCall<T>::KeyColumns() const {
  if (!has_queries()) return 0;
  return listed_ ? columns() : std::min(columns(), cut_.tile + cut_.panel + attention::kLaneQuantum);
}

template <class T>
ContentBiasCall<T>::Scratch::Scratch(core::Arena& arena, const ContentBiasCall& call) {
  const int64_t panel = call.cut_.panel;
  const auto take = [&](bool there) { return there ? arena.Take<T>(call.rows_, panel) : nullptr; };
  content = take(call.keys_.has_value());
  d_content = take(call.keys_ && call.backward_);
  value_content = take(call.values_ && call.backward_);
  mass = take(call.values_ && call.backward_);
  key_columns = call.KeyColumns();
  key_content = arena.Take<T>(call.cut_.tile, key_columns);
  key_rows = arena.Take<T>(call.backward_ && key_columns > 0 ? call.cut_.tile * call.cut_.head_dim : 0);
  slots = call.has_queries() ? attention::DivideUp(call.walked_, call.cut_.tile) : 0;
  edges = arena.Take<T>(slots, 2 * call.cut_.tile);
  edge_tiles = arena.Take<int64_t>(slots);
}

template class ContentBiasCall<float>;
template class ContentBiasCall<double>;

}  // namespace heed::position
