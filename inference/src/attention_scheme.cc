#include "attention_scheme.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "heed/error.h"
#include "heed/packed_matrix.h"
#include "heed/table.h"
#include "parameter.h"

namespace heed {
namespace {

// Tables by offset: low enough that no product of sizes overflows.
constexpr int64_t kMostDistance = int64_t{1} << 30;
// A table by offset that is made from a few numbers: a small file that claims a large distance takes no more than this.
constexpr int64_t kMostComputed = int64_t{1} << 26;

[[noreturn]] void RefuseScheme(const std::string& what) { throw InvalidArgument("MultiHeadAttention: position: " + what); }

void CheckDistance(int64_t max_distance, int64_t least = 0) {
  if (max_distance < least || max_distance > kMostDistance)
    RefuseScheme("max_distance: expected " + std::to_string(least) + " to 2^30, got " + std::to_string(max_distance));
}

void CheckComputed(const char* sizes, int64_t width, int64_t offsets) {
  int64_t numbers = 0;
  if (__builtin_mul_overflow(width, offsets, &numbers) || numbers > kMostComputed)
    RefuseScheme(std::string("expected at most 2^26 for ") + sizes + ", got " + std::to_string(width) + " * " +
                 std::to_string(offsets));
}

using Numbers = std::vector<float>;

void RequireLoaded(const Numbers& numbers) {
  if (numbers.empty()) RefuseScheme("its weights were not loaded");
}

Table<2> TableOf(const Numbers& numbers, int64_t rows, int64_t columns) {
  RequireLoaded(numbers);
  return View<const float, 2>::Contiguous(numbers.data(), {rows, columns});
}

constexpr int64_t kMostCopePositions = int64_t{1} << 18;  // as many as heed::ContextualPosition takes

class AlibiScheme final : public AttentionScheme {
 public:
  AlibiScheme(const AlibiPosition& position, int64_t heads) : symmetric_(position.symmetric) {
    for (const double slope : AlibiSlopes(heads)) slopes_.push_back(static_cast<float>(slope));
  }
  void AddTo(Attention& call) const override {
    call.slope_bias = SlopeBias{View<const float, 1>::Contiguous(slopes_.data(), {std::ssize(slopes_)}), symmetric_};
  }

 private:
  bool symmetric_;
  Numbers slopes_;
};

// Tables that a call reads as they are.
struct TrainedTable {
  const char* name;
  int64_t rows, columns;
  void (*add)(Attention& call, Table<2> table);
};

class TablesScheme final : public AttentionScheme {
 public:
  explicit TablesScheme(std::vector<TrainedTable> tables) : tables_(std::move(tables)), numbers_(tables_.size()) {}
  Parameters parameters() override {
    Parameters own;
    for (std::size_t t = 0; t < tables_.size(); ++t)
      own.list.push_back(KeptIn(numbers_[t], tables_[t].name, {tables_[t].rows, tables_[t].columns}));
    return own;
  }
  void AddTo(Attention& call) const override {
    for (std::size_t t = 0; t < tables_.size(); ++t)
      tables_[t].add(call, TableOf(numbers_[t], tables_[t].rows, tables_[t].columns));
  }

 private:
  std::vector<TrainedTable> tables_;
  std::vector<Numbers> numbers_;
};

ContentBias& ContentOf(Attention& call) { return call.content_bias ? *call.content_bias : call.content_bias.emplace(); }

class T5Scheme final : public AttentionScheme {
 public:
  T5Scheme(const T5Position& position, int64_t heads) : options_(position.options), heads_(heads) {
    T5Thresholds(options_);  // throws before a table of nonsensical size is made
    CheckDistance(options_.max_distance);
    CheckComputed("num_heads * (2 * max_distance + 1)", heads, Offsets());
  }
  Parameters parameters() override {
    return {{{"weight", {options_.buckets, heads_}, [this](std::span<const float> weight) { Fill(weight); }}}, {}};
  }
  void AddTo(Attention& call) const override { call.relative_bias = RelativeBias{TableOf(bias_, heads_, Offsets())}; }

 private:
  int64_t Offsets() const { return 2 * options_.max_distance + 1; }
  // weight [buckets, heads] -> [heads, offsets]: beyond max_distance all offsets share a bucket, as a table clipped there has
  // them.
  void Fill(std::span<const float> weight) {
    std::vector<int64_t> buckets(static_cast<std::size_t>(Offsets()));
    T5Buckets(options_, options_.max_distance, View<int64_t, 1>::Contiguous(buckets.data(), {Offsets()}));
    bias_.clear();
    bias_.reserve(static_cast<std::size_t>(heads_ * Offsets()));
    for (int64_t h = 0; h < heads_; ++h) {
      for (const int64_t bucket : buckets) bias_.push_back(weight[bucket * heads_ + h]);
    }
  }

  T5Options options_;
  int64_t heads_;
  Numbers bias_;
};

// A program and the tables that it reads, whose numbers may be limited.
struct ProgramTableSpec {
  const char* name;
  std::vector<int64_t> shape;  // one or two extents
  float least = -INFINITY, most = INFINITY;
};

class ProgramScheme final : public AttentionScheme {
 public:
  ProgramScheme(ScoreProgram program, std::vector<ProgramTableSpec> tables)
      : program_(std::move(program)), specs_(std::move(tables)), numbers_(specs_.size()) {}
  Parameters parameters() override {
    Parameters own;
    for (std::size_t t = 0; t < specs_.size(); ++t) {
      own.list.push_back({specs_[t].name, specs_[t].shape, [this, t](std::span<const float> values) {
                            numbers_[t].assign(values.begin(), values.end());
                            // As heed::nn limits them, to the bit.
                            for (float& number : numbers_[t])
                              number += std::clamp(number, specs_[t].least, specs_[t].most) - number;
                          }});
    }
    return own;
  }
  void AddTo(Attention& call) const override {
    std::vector<ProgramTable> tables;
    tables.reserve(specs_.size());
    for (std::size_t t = 0; t < specs_.size(); ++t) {
      RequireLoaded(numbers_[t]);
      const std::vector<int64_t>& shape = specs_[t].shape;
      const int64_t rows = shape.size() == 2 ? shape.front() : 1;
      tables.emplace_back(View<const float, 4>::Contiguous(numbers_[t].data(), {1, 1, rows, shape.back()}));
    }
    call.score = ProgramScore{program_, std::move(tables)};
  }

 private:
  ScoreProgram program_;
  std::vector<ProgramTableSpec> specs_;
  std::vector<Numbers> numbers_;
};

// Rotary, and xPos where there are rates.
class RotaryScheme final : public AttentionScheme {
 public:
  explicit RotaryScheme(const RotaryPosition& position, const std::vector<double>& rates = {}) : rotation_{position, {}} {
    if (!DependsOnLength(position.options.scaling)) rotation_.fixed = ComputeRotaryFrequencies(position.options);
    for (const double rate : rates) rates_.push_back(static_cast<float>(rate));
  }
  void AddTo(Attention& call) const override {
    if (rates_.empty()) return;
    call.column_decay = ColumnDecay{View<const float, 1>::Contiguous(rates_.data(), {std::ssize(rates_)})};
  }
  const SchemeRotation* rotation() const override { return &rotation_; }

 private:
  SchemeRotation rotation_;
  Numbers rates_;
};

// Schemes whose tables are projections of encodings, made when their weights are loaded.

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

// What the variant's alternatives need besides themselves.
struct SchemeMaker {
  const MultiHeadAttentionOptions& options;
  int64_t heads, head_dim;
  using Made = std::unique_ptr<AttentionScheme>;

  Made operator()(std::monostate) const { return nullptr; }
  Made operator()(const RotaryPosition& position) const { return std::make_unique<RotaryScheme>(position); }
  Made operator()(const AlibiPosition& position) const { return std::make_unique<AlibiScheme>(position, heads); }
  Made operator()(const RelativeBiasPosition& position) const {
    CheckDistance(position.max_distance);
    const auto add = [](Attention& call, Table<2> table) { call.relative_bias = RelativeBias{table}; };
    return Tables({{"relative_bias", heads, 2 * position.max_distance + 1, add}});
  }
  Made operator()(const T5Position& position) const { return std::make_unique<T5Scheme>(position, heads); }
  Made operator()(const ShawPosition& position) const {
    CheckDistance(position.max_distance);
    const int64_t rows = 2 * position.max_distance + 1;
    std::vector<TrainedTable> tables;
    tables.push_back({"keys", rows, head_dim, [](Attention& call, Table<2> table) { ContentOf(call).keys = table; }});
    if (position.values)
      tables.push_back({"values", rows, head_dim, [](Attention& call, Table<2> table) { ContentOf(call).values = table; }});
    if (position.queries)
      tables.push_back({"queries", rows, head_dim, [](Attention& call, Table<2> table) { ContentOf(call).queries = table; }});
    return Tables(std::move(tables));
  }
  Made operator()(const KerplePosition& position) const {
    const auto least = static_cast<float>(kKerpleLeast);
    const bool power = position.kind == KerpleKind::kPower;
    const float most = power ? static_cast<float>(kKerpleMostPower) : INFINITY;
    return Program(KerpleProgram(position.kind), {{"rate", {heads}, least, most}, {"scale", {heads}, least}});
  }
  Made operator()(const SandwichPosition&) const { return Program(SandwichProgram(heads), {}); }
  Made operator()(const FirePosition&) const {
    return Program(FireProgram(), {{"c", {1}},
                                   {"multiplier", {1}},
                                   {"first_weight", {kFireWidth}},
                                   {"first_bias", {kFireWidth}},
                                   {"second_weight", {heads, kFireWidth}},
                                   {"second_bias", {heads}}});
  }
  Made operator()(const TemperaturePosition&) const { return Program(TemperatureProgram(), {{"log_scale", {heads}}}); }
  Made operator()(const SinusoidalBiasPosition&) const {
    const std::vector<int64_t> shape{heads, kSinusoidalBiasFrequencies};
    return Program(SinusoidalBiasProgram(), {{"cosine", shape}, {"sine", shape}});
  }
  Made operator()(const TransformerXlPosition& position) const {
    return std::make_unique<TransformerXlScheme>(position, heads, head_dim);
  }
  Made operator()(const XPosPosition&) const {
    if (options.causal == Causal::kNone) RefuseScheme("xpos needs causal attention: it would grow towards later keys");
    RotaryPosition rotary;
    rotary.options.rotary_dim = head_dim;
    return std::make_unique<RotaryScheme>(rotary, XPosRates(head_dim));
  }
  Made operator()(const DebertaPosition& position) const { return std::make_unique<DebertaScheme>(position, heads, head_dim); }
  Made operator()(const CopePosition& position) const {
    const int64_t positions = position.max_position;
    if (positions < 1 || positions > kMostCopePositions)
      RefuseScheme("max_position: expected 1 to 2^18, got " + std::to_string(positions));
    const auto add = [](Attention& call, Table<2> table) { call.contextual_position = ContextualPosition{table}; };
    return Tables({{"table", positions, head_dim, add}});
  }

 private:
  static Made Tables(std::vector<TrainedTable> tables) { return std::make_unique<TablesScheme>(std::move(tables)); }
  static Made Program(ScoreProgram program, std::vector<ProgramTableSpec> tables) {
    return std::make_unique<ProgramScheme>(std::move(program), std::move(tables));
  }
};

}  // namespace

std::unique_ptr<AttentionScheme> MakeAttentionScheme(const MultiHeadAttentionOptions& options) {
  return std::visit(SchemeMaker{options, options.num_heads, options.head_dim}, options.position);
}

}  // namespace heed
