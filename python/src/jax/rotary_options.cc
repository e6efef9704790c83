#include "rotary_options.h"

#include <string>

#include "heed/error.h"

namespace heed::jax {
namespace {

YarnScaling YarnOf(const Settings& settings, double factor, int64_t original_length) {
  YarnScaling yarn{factor, original_length};
  yarn.beta_fast = settings.Number("beta_fast").value_or(yarn.beta_fast);
  yarn.beta_slow = settings.Number("beta_slow").value_or(yarn.beta_slow);
  yarn.truncate = settings.Text("truncate", "true") == "true";
  yarn.attention_factor = settings.Number("attention_factor");
  yarn.mscale = settings.Number("mscale");
  yarn.mscale_all_dim = settings.Number("mscale_all_dim");
  return yarn;
}

RotaryScaling ScalingOf(const Settings& settings) {
  const std::string_view type = settings.Text("rope_type", "default");
  const double factor = settings.Number("factor").value_or(1.0);
  const int64_t original_length = settings.Integer("original_length").value_or(0);
  if (type == "default") return std::monostate{};
  if (type == "linear") return LinearScaling{factor};
  if (type == "ntk") return NtkScaling{factor};
  if (type == "dynamic") return DynamicScaling{factor, original_length};
  if (type == "yarn") return YarnOf(settings, factor, original_length);
  if (type == "longrope") {
    return LongRopeScaling{settings.Numbers("short_factors"), settings.Numbers("long_factors"), original_length, factor,
                           settings.Number("attention_factor")};
  }
  if (type == "llama3") {
    return Llama3Scaling{factor, settings.Number("low_frequency_factor").value_or(1.0),
                         settings.Number("high_frequency_factor").value_or(4.0), original_length};
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

RotaryOptions RotaryOptionsOf(const Settings& settings) {
  RotaryOptions options;
  options.rotary_dim = settings.Integer("rotary_dim").value_or(0);
  options.base = settings.Number("base").value_or(options.base);
  options.scaling = ScalingOf(settings);
  options.angles = AnglesOf(settings.Text("angles", "f64"));
  return options;
}

}  // namespace heed::jax
