#include <algorithm>
#include <utility>

#include "characters.h"
#include "config_reader.h"
#include "heed/character_model.h"
#include "heed/error.h"
#include "heed/positions.h"
#include "heed/safetensors.h"

namespace heed {
namespace {

using Json = ConfigReader::Json;

constexpr int64_t kFormat = 1;  // of config.json
// Far above what a CPU trains, low enough that no product of two of them overflows.
constexpr int64_t kMaxLayers = 1024, kMaxWidth = 1 << 16, kMaxContext = 1 << 20;

// As `heed train` resolves it: half the context, and for T5 at least the distance that its buckets need.
int64_t DefaultDistance(const CharacterModelConfig& config) {
  const int64_t least = config.position == "t5" ? T5Options().buckets / 2 + 1 : 1;
  return std::max(least, config.context / 2);
}

}  // namespace

CharacterModelConfig CharacterModelConfig::Read(const std::string& path) {
  const ConfigReader reader(path);
  reader.Integer(reader.file(), "format", kFormat, kFormat);
  const std::string kind = ConfigReader::Has(reader.file(), "kind") ? reader.Text(reader.file(), "kind") : "";
  if (kind == "counts") reader.Fail("it holds counts of characters, not a network; heed::CountingModel opens it");
  if (kind == "table") reader.Fail("it holds a model of labelled sequences; heed::SeriesModel opens it");
  const Json& model = reader.Object(reader.file(), "model");
  const std::string objective = reader.Text(model, "objective");
  if (objective != "causal")
    reader.Fail("the objective " + QuotedName(objective) +
                " is not supported without LibTorch; models of the objective 'causal' are");
  CharacterModelConfig config;
  config.encoder = reader.Text(model, "encoder");
  config.position = reader.Text(model, "position");
  // Runs of earlier versions do not tell these two.
  if (ConfigReader::Has(model, "query_key_norm")) config.query_key_norm = reader.Text(model, "query_key_norm");
  if (ConfigReader::Has(model, "kernel")) config.kernel = reader.Integer(model, "kernel", 1, kMaxContext);
  config.layers = reader.Integer(model, "layers", 1, kMaxLayers);
  config.heads = reader.Integer(model, "heads", 1, kMaxWidth);
  config.width = reader.Integer(model, "width", 1, kMaxWidth);
  config.context = reader.Integer(model, "context", 1, kMaxContext);
  config.ffn_width = reader.Integer(model, "ffn_width", -1, 4 * kMaxWidth);
  if (config.ffn_width < 0) config.ffn_width = 4 * config.width;
  config.max_distance = reader.Integer(model, "max_distance", 0, kMaxContext);
  if (config.max_distance == 0) config.max_distance = DefaultDistance(config);
  config.bias = reader.Flag(model, "bias");
  config.tied = reader.Flag(model, "tied");
  config.characters = ReadCharacters(reader);
  return config;
}

}  // namespace heed
