#include "book/depth/profile.h"

#include <cmath>

#include "heed/error.h"

namespace heed::lab {
namespace {

nlohmann::ordered_json NumbersToJson(const std::vector<double>& values) {
  auto array = nlohmann::ordered_json::array();
  for (const double value : values) array.push_back(NumberToJson(value));
  return array;
}

std::vector<double> NumbersFromJson(const nlohmann::ordered_json& json) {
  std::vector<double> values;
  for (const auto& value : json) values.push_back(NumberFromJson(value));
  return values;
}

// Calls visit(name, field) for every number of a layer.
template <class Layer, class Visit>
void VisitNumbers(Layer& layer, Visit visit) {
  visit("distance_to_equal_rows", layer.distance_to_equal_rows);
  visit("distance_to_rank_one", layer.distance_to_rank_one);
  visit("size", layer.size);
  visit("state_gradient", layer.state_gradient);
  visit("parameter_gradient", layer.parameter_gradient);
  visit("query_key_gradient", layer.query_key_gradient);
}

}  // namespace

nlohmann::ordered_json NumberToJson(double value) { return std::isfinite(value) ? nlohmann::ordered_json(value) : nullptr; }

double NumberFromJson(const nlohmann::ordered_json& json) { return json.is_null() ? NAN : json.get<double>(); }

nlohmann::ordered_json ToJson(const StackProfile& profile) {
  nlohmann::ordered_json json = {{"loss", NumberToJson(profile.loss)}, {"layers", nlohmann::ordered_json::array()}};
  for (const LayerProfile& layer : profile.layers) {
    nlohmann::ordered_json entry;
    VisitNumbers(layer, [&entry](const char* name, double value) { entry[name] = NumberToJson(value); });
    entry["entropy"] = NumbersToJson(layer.entropy);
    entry["largest_weight"] = NumbersToJson(layer.largest_weight);
    json["layers"].push_back(std::move(entry));
  }
  return json;
}

StackProfile ProfileFromJson(const nlohmann::ordered_json& json, int64_t layers, int64_t heads) {
  StackProfile profile;
  profile.loss = NumberFromJson(json.at("loss"));
  for (const auto& entry : json.at("layers")) {
    LayerProfile layer;
    VisitNumbers(layer, [&entry](const char* name, double& value) { value = NumberFromJson(entry.at(name)); });
    layer.entropy = NumbersFromJson(entry.at("entropy"));
    layer.largest_weight = NumbersFromJson(entry.at("largest_weight"));
    const std::size_t expected = profile.layers.empty() ? 0 : static_cast<std::size_t>(heads);
    if (layer.entropy.size() != expected || layer.largest_weight.size() != expected) {
      throw InvalidArgument("profile: incomplete");
    }
    profile.layers.push_back(std::move(layer));
  }
  if (profile.layers.size() != static_cast<std::size_t>(layers) + 1) throw InvalidArgument("profile: incomplete");
  return profile;
}

}  // namespace heed::lab
