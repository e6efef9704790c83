#include "projected_schemes.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "heed/packed_matrix.h"
#include "scheme_numbers.h"

namespace heed {
namespace {

class TransformerXlScheme final : public AttentionScheme {
 public:
  TransformerXlScheme(const TransformerXlPosition& position, int64_t heads, int64_t head_dim)
      : heads_(heads), head_dim_(head_dim), max_distance_(position.max_distance) {
    CheckDistance(max_distance_);
    CheckComputed("num_heads * head_dim * (2 * max_distance + 1)", heads * head_dim, Offsets());
  }
  Parameters parameters() override {
    const int64_t width = heads_ * head_dim_;
    const std::vector<int64_t> by_head{heads_, head_dim_};
    return {{{"projection", {width, width}, [this](std::span<const float> W) { Project(W); }},
             {"content_bias", by_head,
              [this](std::span<const float> u) {
                content_bias_.assign(u.begin(), u.end());
                Subtract();
              }},
             {"position_bias", by_head,
              [this](std::span<const float> v) {
                position_bias_.assign(v.begin(), v.end());
                Subtract();
              }}},
            {}};
  }
  void AddTo(Attention& call) const override {
    RequireLoaded(positions_), RequireLoaded(difference_);
    call.transformer_xl.emplace();
    call.transformer_xl->positions = View<const float, 3>::Contiguous(positions_.data(), {heads_, Offsets(), head_dim_});
    call.transformer_xl->bias = TableOf(difference_, heads_, head_dim_);
  }
  const float* query_bias() const override { return content_bias_.data(); }

 private:
  int64_t Offsets() const { return 2 * max_distance_ + 1; }
  void Project(std::span<const float> W);
  void Subtract() {
    difference_ = position_bias_;
    if (content_bias_.size() != position_bias_.size()) return difference_.clear();
    for (std::size_t i = 0; i < difference_.size(); ++i) difference_[i] -= content_bias_[i];
  }

  int64_t heads_, head_dim_, max_distance_;
  Numbers content_bias_, position_bias_, difference_, positions_;
};

// rows [n, in] times W [heads * head_dim, in], plus a bias or none -> [heads, n, head_dim].
Numbers ProjectedByHead(View<const float, 2> rows, View<const float, 2> W, View<const float, 1> bias, int64_t heads) {
  const int64_t n = rows.extent[0], head_dim = W.extent[0] / heads;
  Numbers out(static_cast<std::size_t>(n * W.extent[0]));
  SerialExecutor executor;
  for (int64_t h = 0; h < heads; ++h) {
    const PackedMatrix of_head({&W(h * head_dim, 0), {head_dim, W.extent[1]}, W.stride});
    const auto own =
        bias.present() ? View<const float, 1>::Contiguous(&bias(h * head_dim), {head_dim}) : View<const float, 1>();
    of_head.Multiply(rows, own, View<float, 2>::Contiguous(&out[h * n * head_dim], {n, head_dim}), executor);
  }
  return out;
}

// Row of key position - query position: the encoding of its opposite, query position - key position.
void TransformerXlScheme::Project(std::span<const float> W) {
  const int64_t width = heads_ * head_dim_, offsets = Offsets();
  Numbers encoding(static_cast<std::size_t>(offsets * width));
  SinusoidalOptions halves;
  halves.layout = SinusoidalLayout::kHalves;
  const auto table = View<float, 2>::Contiguous(encoding.data(), {offsets, width});
  SinusoidalTable(halves, -max_distance_, table);
  const View<const float, 2> reversed{encoding.data() + (offsets - 1) * width, {offsets, width}, {-width, 1}};
  positions_ = ProjectedByHead(reversed, View<const float, 2>::Contiguous(W.data(), {width, width}), {}, heads_);
}

class DebertaScheme final : public AttentionScheme {
 public:
  DebertaScheme(const DebertaPosition& position, int64_t heads, int64_t head_dim)
      : heads_(heads), head_dim_(head_dim), max_distance_(position.max_distance) {
    CheckDistance(max_distance_, 1);
    CheckComputed("num_heads * head_dim * (2 * max_distance + 1)", heads * head_dim, Offsets());
  }
  Parameters parameters() override {
    const int64_t width = heads_ * head_dim_;
    const std::vector<std::pair<std::string, std::vector<int64_t>>> shapes = {{"embeddings", {2 * max_distance_, width}},
                                                                              {"key_projection.weight", {width, width}},
                                                                              {"key_projection.bias", {width}},
                                                                              {"query_projection.weight", {width, width}},
                                                                              {"query_projection.bias", {width}}};
    Parameters own;
    for (std::size_t p = 0; p < shapes.size(); ++p) {
      own.list.push_back({shapes[p].first, shapes[p].second, [this, p](std::span<const float> values) {
                            given_[p].assign(values.begin(), values.end());
                            Project();
                          }});
    }
    return own;
  }
  void AddTo(Attention& call) const override {
    RequireLoaded(of_keys_), RequireLoaded(of_queries_);
    const std::array<int64_t, 3> extent{heads_, Offsets(), head_dim_};
    call.transformer_xl.emplace();
    call.transformer_xl->positions = View<const float, 3>::Contiguous(of_keys_.data(), extent);
    call.content_bias.emplace();
    call.content_bias->head_queries = View<const float, 3>::Contiguous(of_queries_.data(), extent);
  }
  std::optional<double> default_scale() const override { return 1.0 / std::sqrt(3.0 * static_cast<double>(head_dim_)); }

 private:
  int64_t Offsets() const { return 2 * max_distance_ + 1; }
  // Once all five are there.
  void Project() {
    if (std::ranges::any_of(given_, [](const Numbers& numbers) { return numbers.empty(); })) return;
    const int64_t width = heads_ * head_dim_;
    Numbers rows;
    rows.reserve(static_cast<std::size_t>(Offsets() * width));
    for (const int64_t row : DebertaRows(max_distance_))
      rows.insert(rows.end(), given_[0].begin() + row * width, given_[0].begin() + (row + 1) * width);
    const auto by_offset = View<const float, 2>::Contiguous(rows.data(), {Offsets(), width});
    const auto projected = [&](const Numbers& weight, const Numbers& bias) {
      return ProjectedByHead(by_offset, View<const float, 2>::Contiguous(weight.data(), {width, width}),
                             View<const float, 1>::Contiguous(bias.data(), {width}), heads_);
    };
    of_keys_ = projected(given_[1], given_[2]), of_queries_ = projected(given_[3], given_[4]);
  }

  int64_t heads_, head_dim_, max_distance_;
  std::array<Numbers, 5> given_;  // in the order of parameters()
  Numbers of_keys_, of_queries_;
};

}  // namespace

std::unique_ptr<AttentionScheme> MakeTransformerXl(const TransformerXlPosition& position, int64_t heads, int64_t head_dim) {
  return std::make_unique<TransformerXlScheme>(position, heads, head_dim);
}

std::unique_ptr<AttentionScheme> MakeDeberta(const DebertaPosition& position, int64_t heads, int64_t head_dim) {
  return std::make_unique<DebertaScheme>(position, heads, head_dim);
}

}  // namespace heed
