#include "options.h"

#include <string>

#include "heed/error.h"
#include "heed/option_names.h"

namespace heed::jax {
namespace {

// The choice that a setting of this name makes, the first where there is none.
template <class Choice>
Choice ChoiceIn(const Settings& settings, const char* name) {
  return ChoiceNamed<Choice>(name, settings.Text(name).value_or(kChoices<Choice>.front().name));
}

Dropout DropoutOf(Call& call) {
  const Settings& settings = call.settings;
  Dropout dropout{.probability = settings.Number<double>("dropout").value_or(0.0),
                  .batch_offset = settings.Number<int64_t>("batch_offset").value_or(0)};
  if (const Array* row = call.Find("batch_offset")) dropout.batch_offset = call.Numbers(*row).at(0);
  if (const Array* seed = call.Find("seed")) {  // two words, the upper first: JAX has no 64 bits unless told
    const std::vector<int64_t>& words = call.Numbers(*seed);
    dropout.seed = static_cast<uint64_t>(words.at(0)) << 32 | static_cast<uint64_t>(words.at(1));
  }
  return dropout;
}

// Cumulative lengths of the operand's tokens. Where they are only described, the first sequence holds all.
View<const int64_t, 1> Offsets(Call& call, std::string_view name, std::string_view operand) {
  const Array& array = *call.Find(name);
  std::vector<int64_t>& numbers = call.Numbers(array);
  if (array.data == nullptr && numbers.size() > 1)
    std::fill(numbers.begin() + 1, numbers.end(), call.Find(operand)->extent.at(0));
  return View<const int64_t, 1>::Contiguous(numbers.data(), {std::ssize(numbers)});
}

Positions PositionsOf(Call& call, std::string_view list, std::string_view offset) {
  Positions positions;
  positions.offset = call.settings.Number<int64_t>(offset);
  if (const Array* number = call.Find(offset)) positions.offset = call.Numbers(*number).at(0);
  const Array* listed = call.Find(list);
  if (listed == nullptr) return positions;
  if (listed->type == DataType::F64) {
    positions.list = call.Dense<const double, 2>(list);
  } else {
    positions.list = call.Integers<2>(list);
  }
  return positions;
}

template <class A>
void ReadTables(const Call& call, Attention& attention) {
  if (call.Find("mask")) attention.mask = Mask{call.Dense<const bool, 4>("mask")};
  if (call.Find("bias")) attention.bias = Bias{call.Dense<const A, 4>("bias")};
  if (call.Find("relative_bias")) attention.relative_bias = RelativeBias{call.Dense<const A, 2>("relative_bias")};
  if (call.Find("slopes"))
    attention.slope_bias = SlopeBias{call.Dense<const A, 1>("slopes"), !call.settings.Flag("asymmetric")};
  ContentBias content;
  if (call.Find("content_keys")) content.keys = call.Dense<const A, 2>("content_keys");
  if (call.Find("content_values")) content.values = call.Dense<const A, 2>("content_values");
  if (call.Find("content_queries")) content.queries = call.Dense<const A, 2>("content_queries");
  if (content.keys || content.values || content.queries) attention.content_bias = content;
  if (call.Find("sinks")) attention.sinks = Sinks{call.Dense<const A, 3>("sinks")};
  if (call.Find("contextual_position"))
    attention.contextual_position = ContextualPosition{call.Dense<const A, 2>("contextual_position")};
  if (!call.Find("transformer_xl_positions")) return;
  attention.transformer_xl.emplace().positions = call.Dense<const A, 3>("transformer_xl_positions");
  if (call.Find("transformer_xl_bias")) attention.transformer_xl->bias = call.Dense<const A, 2>("transformer_xl_bias");
}

RotaryScaling ScalingOf(const Settings& settings) {
  const auto number = [&](const char* name) { return settings.Number<double>(name); };
  const auto numbers = [&](const char* name) {
    std::vector<double> list;
    for (const std::string_view part : Split(settings.Text(name).value_or(""), ',')) list.push_back(Parsed<double>(name, part));
    return list;
  };
  const std::string_view type = settings.Text("rope_type").value_or("default");
  const double factor = number("factor").value_or(1.0);
  const int64_t original_length = settings.Number<int64_t>("original_length").value_or(0);
  const std::optional<double> attention_factor = number("attention_factor");
  if (type == "default") return std::monostate{};
  if (type == "linear") return LinearScaling{factor};
  if (type == "ntk") return NtkScaling{factor};
  if (type == "dynamic") return DynamicScaling{factor, original_length};
  if (type == "yarn") {
    return YarnScaling{factor,
                       original_length,
                       number("beta_fast").value_or(32.0),
                       number("beta_slow").value_or(1.0),
                       settings.Text("truncate") != "false",
                       attention_factor,
                       number("mscale"),
                       number("mscale_all_dim")};
  }
  if (type == "longrope")
    return LongRopeScaling{numbers("short_factors"), numbers("long_factors"), original_length, factor, attention_factor};
  if (type == "llama3") {
    return Llama3Scaling{factor, number("low_frequency_factor").value_or(1.0), number("high_frequency_factor").value_or(4.0),
                         original_length};
  }
  throw InvalidArgument("rope_type: expected default, linear, ntk, dynamic, yarn, longrope or llama3, got '" +
                        std::string(type) + "'");
}

Angles AnglesOf(std::string_view name) {
  if (name == "f64") return Angles::kFloat64;
  if (name == "f32_hf") return Angles::kFloat32;
  throw InvalidArgument("angles: expected 'f64' or 'f32_hf', got '" + std::string(name) + "'");
}

}  // namespace

template <class A>
Attention AttentionOf(Call& call) {
  const Settings& settings = call.settings;
  Attention attention;
  attention.scale = settings.Number<double>("scale");
  attention.causal = ChoiceIn<Causal>(settings, "causal");
  attention.window = {settings.Number<int64_t>("window_left").value_or(-1),
                      settings.Number<int64_t>("window_right").value_or(-1)};
  attention.softcap = settings.Number<double>("softcap");
  attention.dropout = DropoutOf(call);
  attention.empty_row = ChoiceIn<EmptyRow>(settings, "empty_row");
  attention.precision = ChoiceIn<Precision>(settings, "precision");
  attention.query_lengths.values = call.Integers<2>("query_lengths");
  attention.key_lengths.values = call.Integers<2>("key_lengths");
  attention.prefix_lengths.values = call.Integers<2>("prefix_lengths");
  attention.query_positions = PositionsOf(call, "query_positions", "query_offset");
  attention.key_positions = PositionsOf(call, "key_positions", "key_offset");
  if (call.Find("query_offsets")) {
    attention.packed.query_offsets = Offsets(call, "query_offsets", "query");
    attention.packed.key_offsets = Offsets(call, "key_offsets", "key");
  }
  ReadTables<A>(call, attention);
  return attention;
}

template Attention AttentionOf<float>(Call&);
template Attention AttentionOf<double>(Call&);

RotaryOptions RotaryOptionsOf(const Settings& settings) {
  RotaryOptions options;
  options.rotary_dim = settings.Number<int64_t>("rotary_dim").value_or(0);
  options.base = settings.Number<double>("base").value_or(options.base);
  options.scaling = ScalingOf(settings);
  options.angles = AnglesOf(settings.Text("angles").value_or("f64"));
  return options;
}

}  // namespace heed::jax
