#include "heed/nn/score_terms.h"

#include <algorithm>
#include <cmath>

#include <ATen/ATen.h>
#include <torch/nn/init.h>

#include "heed/scheme_formulas.h"
#include "refuse.h"
#include "sizes.h"
#include "tensor_view.h"

namespace heed::nn {
namespace {

// Parameters of 16 bits in float32, so that tables that are computed of them are not rounded once more.
at::Tensor Widened(const at::Tensor& parameter) {
  return IsNarrow(parameter.scalar_type()) ? parameter.to(at::kFloat) : parameter;
}

// The width of what is projected to heads * head_dim by offset, 0 standing for as many.
int64_t CheckedWidth(const char* scheme, int64_t heads, int64_t head_dim, int64_t max_distance, int64_t least_distance,
                     int64_t width) {
  CheckSize(scheme, "heads", heads);
  CheckSize(scheme, "head_dim", head_dim);
  CheckSize(scheme, "max_distance", max_distance, least_distance);
  CheckSize(scheme, "width", width, 0);
  const int64_t projected = heads * head_dim;
  if (width == 0) width = projected;
  CheckTable(scheme, "heads and head_dim", projected, width);
  CheckTable(scheme, "max_distance", 2 * max_distance + 1, std::max(width, projected));
  return width;
}

}  // namespace

AlibiImpl::AlibiImpl(int64_t heads, bool symmetric, bool trainable)
    : heads_(heads), symmetric_(symmetric), trainable_(trainable) {
  reset();
}

void AlibiImpl::reset() {
  slopes = at::tensor(AlibiSlopes(heads_), at::kFloat);
  if (trainable_) slopes = register_parameter("slopes", slopes);
}

void AlibiImpl::to(torch::Device device, torch::Dtype dtype, bool non_blocking) {
  Module::to(device, TableType(slopes, dtype), non_blocking);
}

void AlibiImpl::to(torch::Dtype dtype, bool non_blocking) { Module::to(TableType(slopes, dtype), non_blocking); }

RelativeBiasImpl::RelativeBiasImpl(int64_t heads, int64_t max_distance) : heads_(heads), max_distance_(max_distance) {
  CheckSize("RelativeBias", "heads", heads);
  CheckSize("RelativeBias", "max_distance", max_distance, 0);
  CheckTable("RelativeBias", "max_distance", 2 * max_distance + 1, heads);
  reset();
}

void RelativeBiasImpl::reset() {
  relative_bias = register_parameter("relative_bias", at::zeros({heads_, 2 * max_distance_ + 1}));
}

T5BiasImpl::T5BiasImpl(int64_t heads, T5Options options) : heads_(heads), options_(options) {
  CheckSize("T5Bias", "heads", heads);
  CheckSize("T5Bias", "max_distance", options.max_distance, 0);
  T5Thresholds(options);  // throws for others that make no sense
  CheckTable("T5Bias", "heads", options.buckets, heads);
  CheckTable("T5Bias", "max_distance", 2 * options.max_distance + 1, heads);
  reset();
}

void T5BiasImpl::reset() {
  // Beyond max_distance all offsets share a bucket, as a table clipped there has them.
  const int64_t offsets = 2 * options_.max_distance + 1;
  bucket_of_offset_ = at::empty({offsets}, at::kLong);
  T5Buckets(options_, options_.max_distance, ViewOf<int64_t, 1>(bucket_of_offset_));
  weight = register_parameter("weight", at::zeros({options_.buckets, heads_}));
}

at::Tensor T5BiasImpl::table() const { return weight.t().index_select(1, bucket_of_offset_); }

ShawImpl::ShawImpl(int64_t head_dim, int64_t max_distance, bool with_values, bool with_queries, int64_t value_dim)
    : head_dim_(head_dim),
      max_distance_(max_distance),
      value_dim_(value_dim == 0 ? head_dim : value_dim),
      with_values_(with_values),
      with_queries_(with_queries) {
  CheckSize("Shaw", "head_dim", head_dim);
  CheckSize("Shaw", "max_distance", max_distance, 0);
  CheckSize("Shaw", "value_dim", value_dim, 0);
  CheckTable("Shaw", "max_distance", 2 * max_distance + 1, std::max(head_dim, value_dim));
  reset();
}

void ShawImpl::reset() {
  const auto vectors = [this](const char* name, int64_t width) {
    at::Tensor rows = register_parameter(name, at::empty({2 * max_distance_ + 1, width}));
    return torch::nn::init::normal_(rows, 0.0, 1.0 / std::sqrt(static_cast<double>(head_dim_)));
  };
  keys = vectors("keys", head_dim_);
  if (with_values_) values = vectors("values", value_dim_);
  if (with_queries_) queries = vectors("queries", head_dim_);
}

TransformerXLImpl::TransformerXLImpl(int64_t heads, int64_t head_dim, int64_t max_distance, int64_t width)
    : heads_(heads), head_dim_(head_dim), max_distance_(max_distance) {
  width_ = CheckedWidth("TransformerXL", heads, head_dim, max_distance, /*least_distance=*/0, width);
  reset();
}

void TransformerXLImpl::reset() {
  SinusoidalOptions halves;
  halves.layout = SinusoidalLayout::kHalves;
  const at::Tensor rows = at::empty({2 * max_distance_ + 1, width_}, at::kDouble);
  SinusoidalTable(halves, -max_distance_, ViewOf<double, 2>(rows));
  encoding_ = rows.flip(0);  // the distance falls as the offset grows
  const auto normal = [this](const char* name, int64_t count, int64_t width) {
    return torch::nn::init::normal_(register_parameter(name, at::empty({count, width})), 0.0, 0.02);
  };
  projection = normal("projection", heads_ * head_dim_, width_);
  content_bias = normal("content_bias", heads_, head_dim_);
  position_bias = normal("position_bias", heads_, head_dim_);
}

AttentionTensors TransformerXLImpl::tensors() const {
  const at::Tensor wide = Widened(projection);
  const at::Tensor rows = at::linear(encoding_.to(wide.options()), wide);
  return {.transformer_xl_positions = rows.view({-1, heads_, head_dim_}).transpose(0, 1),
          .transformer_xl_bias = Widened(position_bias) - Widened(content_bias)};
}

at::Tensor TransformerXLImpl::rotate_query(const at::Tensor& query, const TokenPositions&) const {
  if (!query.defined() || query.dim() != 4 || query.size(1) != heads_ || query.size(3) != head_dim_) {
    Refuse("TransformerXL: query: expected shape [batch, ", heads_, ", steps, ", head_dim_, "], got ", ShapeText(query));
  }
  // Of 16 bits the sum is rounded once.
  return (query + content_bias.unsqueeze(1)).to(query.scalar_type());
}

at::Tensor TransformerXLImpl::rotate_key(const at::Tensor& key, const TokenPositions&) const { return key; }

DebertaImpl::DebertaImpl(int64_t heads, int64_t head_dim, int64_t max_distance, int64_t buckets, int64_t width)
    : heads_(heads), head_dim_(head_dim), span_(buckets == 0 ? max_distance : buckets) {
  width_ = CheckedWidth("Deberta", heads, head_dim, max_distance, /*least_distance=*/1, width);
  if (buckets != 0 && (buckets < 2 || buckets % 2 != 0 || max_distance - 1 <= buckets / 2)) {
    Refuse("Deberta: buckets: expected 0, or an even number of at least 2 with half of them below max_distance - 1, got ",
           buckets, " with max_distance ", max_distance);
  }
  CheckTable("Deberta", "buckets", 2 * span_, width_);
  row_of_offset_ = at::tensor(DebertaRows(max_distance, buckets), at::kLong);
  reset();
}

void DebertaImpl::reset() {
  embeddings = torch::nn::init::normal_(register_parameter("embeddings", at::empty({2 * span_, width_})), 0.0, 0.02);
  key_projection = register_module("key_projection", torch::nn::Linear(width_, heads_ * head_dim_));
  query_projection = register_module("query_projection", torch::nn::Linear(width_, heads_ * head_dim_));
}

std::optional<double> DebertaImpl::default_scale(int64_t head_dim) const {
  return 1.0 / std::sqrt(3.0 * static_cast<double>(head_dim));
}

AttentionTensors DebertaImpl::tensors() const {
  const at::Tensor wide = Widened(embeddings);
  const auto by_head = [&](const torch::nn::Linear& projection) {
    const at::Tensor rows = at::linear(wide, Widened(projection->weight), Widened(projection->bias));
    return rows.index_select(0, row_of_offset_).view({-1, heads_, head_dim_}).transpose(0, 1);
  };
  return {.content_queries = by_head(query_projection), .transformer_xl_positions = by_head(key_projection)};
}

CopeImpl::CopeImpl(int64_t head_dim, int64_t max_position) : head_dim_(head_dim), max_position_(max_position) {
  CheckSize("Cope", "head_dim", head_dim);
  // As many as the engine takes, see heed::ContextualPosition.
  constexpr int64_t kMost = int64_t{1} << 18;
  if (max_position < 1 || max_position > kMost) Refuse("Cope: max_position: expected 1 to ", kMost, ", got ", max_position);
  CheckTable("Cope", "head_dim", max_position, head_dim);
  reset();
}

void CopeImpl::reset() { table = register_parameter("table", at::zeros({max_position_, head_dim_})); }

}  // namespace heed::nn
