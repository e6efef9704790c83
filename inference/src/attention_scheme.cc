#include "attention_scheme.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "heed/error.h"
#include "heed/shown_name.h"
#include "parameter.h"
#include "projected_schemes.h"
#include "scheme_numbers.h"

namespace heed {
namespace {

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
  Made operator()(const TransformerXlPosition& position) const { return MakeTransformerXl(position, heads, head_dim); }
  Made operator()(const XPosPosition&) const {
    if (options.causal == Causal::kNone) RefuseScheme("xpos needs causal attention: it would grow towards later keys");
    RotaryPosition rotary;
    rotary.options.rotary_dim = head_dim;
    return std::make_unique<RotaryScheme>(rotary, XPosRates(head_dim));
  }
  Made operator()(const DebertaPosition& position) const { return MakeDeberta(position, heads, head_dim); }
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

struct NamedPosition {
  const char* name;
  AttentionPosition (*make)(int64_t max_distance, bool causal);
};

template <class Position>
AttentionPosition WithoutSizes(int64_t /*max_distance*/, bool /*causal*/) {
  return Position{};
}
template <class Position>
AttentionPosition WithDistance(int64_t max_distance, bool /*causal*/) {
  return Position{max_distance};
}

constexpr NamedPosition kPositions[] = {
    {"none", WithoutSizes<std::monostate>},
    {"sinusoidal", WithoutSizes<std::monostate>},
    {"learned", WithoutSizes<std::monostate>},
    {"rotary", WithoutSizes<RotaryPosition>},
    {"alibi", WithoutSizes<AlibiPosition>},
    {"relative", WithDistance<RelativeBiasPosition>},
    {"t5",
     [](int64_t max_distance, bool causal) -> AttentionPosition {
       T5Options options;
       options.max_distance = max_distance;
       options.bidirectional = !causal;
       return T5Position{options};
     }},
    {"shaw", WithDistance<ShawPosition>},
    {"kerple", WithoutSizes<KerplePosition>},
    {"kerple_power", [](int64_t, bool) -> AttentionPosition { return KerplePosition{KerpleKind::kPower}; }},
    {"sandwich", WithoutSizes<SandwichPosition>},
    {"fire", WithoutSizes<FirePosition>},
    {"temperature", WithoutSizes<TemperaturePosition>},
    {"sinusoidal_bias", WithoutSizes<SinusoidalBiasPosition>},
    {"transformer_xl", WithDistance<TransformerXlPosition>},
    {"xpos", WithoutSizes<XPosPosition>},
    {"deberta", WithDistance<DebertaPosition>},
    {"cope", WithDistance<CopePosition>},
};

}  // namespace

std::unique_ptr<AttentionScheme> MakeAttentionScheme(const MultiHeadAttentionOptions& options) {
  return std::visit(SchemeMaker{options, options.num_heads, options.head_dim}, options.position);
}

AttentionPosition PositionNamed(const std::string& name, int64_t max_distance, bool causal) {
  std::string names;
  for (const NamedPosition& position : kPositions) {
    if (name == position.name) return position.make(max_distance, causal);
    names += (names.empty() ? "" : ", ") + std::string(position.name);
  }
  throw InvalidArgument("position: " + QuotedName(name) + " is unknown; expected one of " + names);
}

}  // namespace heed
