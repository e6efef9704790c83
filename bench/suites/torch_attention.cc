#include "bench/suites/torch_attention.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include <ATen/TensorOperators.h>
#include <ATen/ops/_fused_sdp_choice.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <ATen/ops/zeros.h>

namespace heed::lab {
namespace {

constexpr double kHidden = -std::numeric_limits<double>::infinity();

at::Tensor Padded(const at::Tensor& tensor, int64_t width) {
  return tensor.size(3) == width ? tensor : at::constant_pad_nd(tensor, {0, width - tensor.size(3)});
}

}  // namespace

std::string TorchWay::Name() const {
  std::string name;
  const auto add = [&name](bool present, const char* words) {
    if (present) name += (name.empty() ? "" : ", ") + std::string(words);
  };
  add(groups == Groups::kFlag, "enable_gqa");
  add(groups == Groups::kRepeated, "repeated heads");
  add(groups == Groups::kFolded, "folded groups");
  add(additive, "additive mask");
  add(padded, "padded widths");
  return name;
}

TorchAttention::TorchAttention(const CallCase& c, const AttentionInputs& inputs) : case_(c), inputs_(inputs) {
  PrepareMasks(PrepareOrder());
  if (!inputs.table.defined()) return;
  const at::Tensor keys = at::arange(first_key_, last_key_).unsqueeze(0);
  const at::Tensor queries = at::arange(c.shape.q_len).unsqueeze(1) + c.PositionOf(0);
  offsets_ = (keys - queries + (std::max(c.shape.q_len, c.shape.kv_len) - 1)).flatten();
}

// Finds the keys that are seen at all, and whether a mask is needed to tell which query sees which of them.
bool TorchAttention::PrepareOrder() {
  const int64_t rows = DifferentRows(case_), queries = case_.shape.q_len;
  const auto for_each = [&](const auto& visit) {
    for (int64_t b = 0; b < rows; ++b)
      for (int64_t i = 0; i < queries; ++i) visit(b, i, KeysOf(case_, b, i));
  };
  first_key_ = case_.shape.kv_len;
  for_each([&](int64_t, int64_t, std::pair<int64_t, int64_t> keys) {
    if (keys.first == keys.second) return;
    first_key_ = std::min(first_key_, keys.first);
    last_key_ = std::max(last_key_, keys.second);
  });
  if (last_key_ == 0) first_key_ = 0, last_key_ = case_.shape.kv_len;
  bool all = true, triangle = rows == 1;
  for_each([&](int64_t b, int64_t i, std::pair<int64_t, int64_t> keys) {
    all = all && keys == std::pair{first_key_, last_key_};
    triangle = triangle && keys == std::pair{first_key_, std::min(first_key_ + i + 1, last_key_)};
    same_keys_ = same_keys_ && keys == KeysOf(case_, b, 0);
  });
  // is_causal goes with no mask beside it.
  causal_ = triangle && !all && !case_.mask && case_.bias == CallCase::Bias::kNone;
  return !all && !causal_;
}

void TorchAttention::PrepareMasks(bool order_hides) {
  if (order_hides) visible_ = VisibleByOrder();
  if (inputs_.mask.defined()) {
    const at::Tensor seen = inputs_.mask.narrow(3, first_key_, last_key_ - first_key_);
    visible_ = visible_.defined() ? visible_.logical_and(seen) : seen;
  }
  if (visible_.defined())
    additive_ = at::zeros(visible_.sizes(), inputs_.query.options()).masked_fill_(visible_.logical_not(), kHidden);
  if (case_.bias == CallCase::Bias::kConstant) {
    const at::Tensor bias = inputs_.bias.narrow(3, first_key_, last_key_ - first_key_);
    additive_ = additive_.defined() ? bias + additive_ : bias;
  }
  const bool per_query = inputs_.mask.defined() && case_.shape.q_len > 1;
  same_keys_ = same_keys_ && !per_query && case_.bias == CallCase::Bias::kNone;
}

at::Tensor TorchAttention::VisibleByOrder() const {
  const int64_t rows = DifferentRows(case_), queries = same_keys_ ? 1 : case_.shape.q_len;
  at::Tensor bounds = at::empty({rows, 1, queries, 2}, at::kLong);
  auto* bound = bounds.mutable_data_ptr<int64_t>();
  for (int64_t b = 0; b < rows; ++b)
    for (int64_t i = 0; i < queries; ++i) {
      const auto [first, last] = KeysOf(case_, b, i);
      *bound++ = first;
      *bound++ = last;
    }
  const at::Tensor keys = at::arange(first_key_, last_key_);
  return (keys >= bounds.narrow(3, 0, 1)).logical_and_(keys < bounds.narrow(3, 1, 1));
}

std::vector<TorchWay> TorchAttention::Ways() const {
  using enum TorchWay::Groups;
  std::vector<TorchWay::Groups> groups = {kNone};
  if (case_.shape.q_heads != case_.shape.kv_heads) {
    groups = {kFlag, kRepeated};
    if (same_keys_) groups.push_back(kFolded);
  }
  const bool either_mask = visible_.defined() && case_.bias == CallCase::Bias::kNone;
  const bool padding_helps = case_.shape.head_dim != case_.shape.value_dim && case_.dropout == 0;
  std::vector<TorchWay> ways;
  for (const TorchWay::Groups of_way : groups)
    for (const bool additive : {false, true})
      for (const bool padded : {false, true})
        if ((!additive || either_mask) && (!padded || padding_helps)) ways.push_back({of_way, additive, padded});
  return ways;
}

std::optional<at::Tensor> TorchAttention::MaskOf(const TorchWay& way) const {
  const int64_t keys = last_key_ - first_key_;
  at::Tensor bias;
  if (case_.bias == CallCase::Bias::kTrainable) bias = inputs_.bias.narrow(3, first_key_, keys);
  // The matrix that LibTorch needs, built in every call because its table trains.
  if (inputs_.table.defined())
    bias = inputs_.table.index_select(1, offsets_).view({1, case_.shape.q_heads, case_.shape.q_len, keys});
  if (bias.defined()) return additive_.defined() ? bias + additive_ : bias;
  if (case_.bias == CallCase::Bias::kConstant || (visible_.defined() && way.additive)) return additive_;
  return visible_.defined() ? std::optional(visible_) : std::nullopt;
}

TorchAttention::Call TorchAttention::Prepare(const TorchWay& way) const {
  const Shape& shape = case_.shape;
  const int64_t keys = last_key_ - first_key_, group = shape.q_heads / shape.kv_heads;
  Call call{.query = inputs_.query,
            .key = keys < shape.kv_len ? inputs_.key.narrow(2, first_key_, keys) : inputs_.key,
            .value = keys < shape.kv_len ? inputs_.value.narrow(2, first_key_, keys) : inputs_.value,
            .mask = MaskOf(way),
            .causal = causal_,
            .grouped = way.groups == TorchWay::Groups::kFlag,
            .scale = 1 / std::sqrt(static_cast<double>(shape.head_dim))};
  if (way.padded) {
    const int64_t width = std::max(shape.head_dim, shape.value_dim);
    for (at::Tensor* tensor : {&call.query, &call.key, &call.value}) *tensor = Padded(*tensor, width);
  }
  if (way.groups == TorchWay::Groups::kFolded)
    call.query = call.query.reshape({shape.batch, shape.kv_heads, group * shape.q_len, call.query.size(3)});
  if (way.groups == TorchWay::Groups::kRepeated)
    for (at::Tensor* tensor : {&call.key, &call.value})
      *tensor = shape.kv_heads == 1 ? tensor->expand({-1, group, -1, -1}) : tensor->repeat_interleave(group, 1);
  return call;
}

at::Tensor TorchAttention::Output(const TorchWay& way) const {
  const Call call = Prepare(way);
  at::Tensor output = at::scaled_dot_product_attention(call.query, call.key, call.value, call.mask, case_.dropout, call.causal,
                                                       call.scale, call.grouped);
  if (way.padded) output = output.narrow(3, 0, case_.shape.value_dim);
  if (way.groups == TorchWay::Groups::kFolded)
    output = output.reshape({case_.shape.batch, case_.shape.q_heads, case_.shape.q_len, case_.shape.value_dim});
  return output;
}

double TorchAttention::Pairs() const {
  if (!inputs_.mask.defined()) return static_cast<double>(PairsOf(case_));
  // Masks differ between all batch rows.
  const at::Tensor seen = inputs_.mask.narrow(3, first_key_, last_key_ - first_key_);
  return static_cast<double>(seen.logical_and(VisibleByOrder()).sum().item<int64_t>());
}

std::string TorchAttention::Path(const TorchWay& way) const {
  const Call call = Prepare(way);
  const int64_t choice =
      at::_fused_sdp_choice(call.query, call.key, call.value, call.mask, case_.dropout, call.causal, call.scale, call.grouped);
  return choice == 1 ? "flash" : "math";
}

}  // namespace heed::lab
