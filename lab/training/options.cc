#include "lab/training/options.h"

#include <algorithm>
#include <cmath>

#include "heed/error.h"
#include "heed/nn/encoders.h"
#include "heed/nn/positions.h"
#include "heed/positions.h"
#include "lab/training/query_key_norm.h"

namespace heed::lab {
namespace {

// Far above what a CPU trains, low enough that no product of two of them overflows.
constexpr int64_t kMaxLayers = 1024, kMaxWidth = 1 << 16, kMaxContext = 1 << 20, kMaxBatch = 1 << 20;
// Numbers of tables by position, 512 MiB, and by offset in all layers, which take six times their 128 MiB while they are
// computed.
constexpr int64_t kMaxByPosition = 1 << 27, kMaxByOffset = 1 << 25;

std::string Show(double value) {
  std::string text = std::to_string(value);
  if (value != 0.0 && (std::abs(value) < 1e-3 || std::abs(value) >= 1e15)) {
    char digits[32];
    std::snprintf(digits, sizeof digits, "%g", value);
    text = digits;
  }
  return text;
}

void RequireRange(const char* name, int64_t value, int64_t low, int64_t high) {
  if (value < low || value > high) {
    throw InvalidArgument(std::string(name) + ": " + std::to_string(value) + " is outside " + std::to_string(low) + ".." +
                          std::to_string(high));
  }
}

void Require(bool holds, const char* name, double value, const char* expected) {
  if (!holds) throw InvalidArgument(std::string(name) + ": " + Show(value) + " is not " + expected);
}

// The buckets that the encoder makes for t5.
T5Options T5OptionsOf(const ModelOptions& model) {
  return {nn::PositionOptions().buckets, RelativeDistance(model), model.objective != Objective::kCausal};
}

void ValidateHeads(const ModelOptions& model) {
  RequireRange("heads", model.heads, 1, kMaxWidth);
  if (model.width % model.heads != 0) {
    throw InvalidArgument("width: " + std::to_string(model.width) + " is not divisible by " + std::to_string(model.heads) +
                          " heads");
  }
}

void ValidatePosition(const ModelOptions& model) {
  const nn::PositionScheme scheme = nn::ParsePositionScheme(model.position);
  const int64_t head_width = model.width / model.heads;
  if (nn::NeedsCausal(scheme) && model.objective != Objective::kCausal)
    throw InvalidArgument("position: " + model.position +
                          " needs the causal objective: its scores grow towards later characters");
  if (nn::TurnsPairs(scheme) && head_width % 2 != 0) {
    throw InvalidArgument("position: " + model.position + " turns pairs of columns and needs an even head width; width " +
                          std::to_string(model.width) + " over " + std::to_string(model.heads) + " heads gives " +
                          std::to_string(head_width));
  }
  if (scheme == nn::PositionScheme::kT5) T5Thresholds(T5OptionsOf(model));
}

// Columns of the table by offset that a layer has, 0 without one.
int64_t OffsetColumns(const ModelOptions& model) {
  if (model.encoder == "decomposable") return model.heads;
  switch (nn::ParsePositionScheme(model.position)) {
    case nn::PositionScheme::kRelativeBias:
    case nn::PositionScheme::kT5:
      return model.heads;
    case nn::PositionScheme::kShaw:
      return 2 * model.width / model.heads;  // of keys and of values
    case nn::PositionScheme::kTransformerXl:
    case nn::PositionScheme::kDeberta:
      return model.width;
    default:
      return 0;
  }
}

// Each size is fine by itself, and a table has their product.
void ValidateTables(const ModelOptions& model) {
  const auto check = [](const char* name, int64_t value, int64_t numbers, int64_t most) {
    if (numbers > most) {
      throw InvalidArgument(std::string(name) + ": " + std::to_string(value) + " makes positional tables of " +
                            std::to_string(numbers) + " numbers; expected at most " + std::to_string(most));
    }
  };
  const int64_t distance = RelativeDistance(model);
  const bool given = model.max_distance > 0;
  check(given ? "max_distance" : "context", given ? model.max_distance : model.context,
        model.layers * (2 * distance + 1) * OffsetColumns(model), kMaxByOffset);
  if (nn::AddsToInput(nn::ParsePositionScheme(model.position)))
    check("context", model.context, model.context * model.width, kMaxByPosition);
}

}  // namespace

std::vector<std::string> EncoderNames() { return nn::EncoderNames(); }
std::vector<std::string> PositionSchemeNames() { return nn::PositionSchemeNames(); }

TrainOptions ShortTraining(int64_t steps, double lr, double weight_decay) {
  TrainOptions training;
  training.steps = steps;
  training.lr = lr;
  training.min_lr = lr / 10;
  training.weight_decay = weight_decay;
  return training;
}

void Validate(const ModelOptions& model) {
  const bool has_heads = nn::HasHeads(model.encoder);  // throws where the encoder is unknown
  RequireRange("layers", model.layers, 1, kMaxLayers);
  RequireRange("width", model.width, 1, kMaxWidth);
  RequireRange("context", model.context, 1, kMaxContext);
  RequireRange("ffn_width", model.ffn_width, -1, 4 * kMaxWidth);
  RequireRange("kernel", model.kernel, 1, 1 << 10);
  RequireRange("max_distance", model.max_distance, 0, kMaxContext);
  Require(model.dropout >= 0.0 && model.dropout < 1.0, "dropout", model.dropout, "in [0, 1)");
  if (model.precision != "float32" && model.precision != "float64") {
    throw InvalidArgument("precision: '" + model.precision + "' is unknown; choose float32 or float64");
  }
  if (has_heads) ValidateHeads(model);
  if (ParseQueryKeyNorm(model.query_key_norm) != nn::QueryKeyNormKind::kNone && model.encoder != "attention") {
    throw InvalidArgument("query_key_norm: '" + model.query_key_norm + "' needs the attention encoder, got " + model.encoder);
  }
  if (model.encoder == "attention") {
    ValidatePosition(model);
  } else if (model.position != "none") {
    throw InvalidArgument("position: '" + model.position + "' needs the attention encoder; " + model.encoder +
                          " knows the order of steps by itself and takes none");
  }
  ValidateTables(model);
}

void Validate(const TrainOptions& train) {
  Validate(train.model);
  RequireRange("batch", train.batch, 1, kMaxBatch);
  RequireRange("steps", train.steps, 1, int64_t{1} << 40);
  RequireRange("warmup", train.warmup, -1, int64_t{1} << 40);
  RequireRange("eval_every", train.eval_every, 1, int64_t{1} << 40);
  Require(train.lr > 0.0 && std::isfinite(train.lr), "lr", train.lr, "a positive number");
  Require(train.min_lr >= 0.0 && train.min_lr <= train.lr, "min_lr", train.min_lr, "between 0 and lr");
  Require(train.beta1 >= 0.0 && train.beta1 < 1.0, "beta1", train.beta1, "in [0, 1)");
  Require(train.beta2 >= 0.0 && train.beta2 < 1.0, "beta2", train.beta2, "in [0, 1)");
  Require(train.zero_rate > 0.0 && std::isfinite(train.zero_rate), "zero_rate", train.zero_rate, "a positive number");
  Require(train.weight_decay >= 0.0 && std::isfinite(train.weight_decay), "weight_decay", train.weight_decay, "0 or more");
  Require(train.clip >= 0.0 && std::isfinite(train.clip), "clip", train.clip, "0 or more");
}

int64_t WarmUp(const TrainOptions& train) { return train.warmup < 0 ? train.steps / 5 : train.warmup; }

int64_t FeedForwardWidth(const ModelOptions& model) { return model.ffn_width < 0 ? 4 * model.width : model.ffn_width; }

int64_t RelativeDistance(const ModelOptions& model) {
  if (model.max_distance > 0) return model.max_distance;
  int64_t least = 1;
  if (model.position == "t5") {
    // Half of a side's buckets hold one distance each, and the others begin after them.
    const int64_t buckets = nn::PositionOptions().buckets;
    least = (model.objective == Objective::kCausal ? buckets : buckets / 2) / 2 + 1;
  }
  return std::max(least, model.context / 2);
}

}  // namespace heed::lab
