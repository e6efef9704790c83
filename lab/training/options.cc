#include "lab/training/options.h"

#include <algorithm>
#include <limits>

#include <fmt/core.h>

#include "heed/error.h"
#include "heed/nn/encoders.h"
#include "heed/nn/positions.h"
#include "heed/positions.h"
#include "lab/report/figure.h"

namespace heed::lab {
namespace {

// Far above what a CPU trains, low enough that no product of two of them overflows.
constexpr int64_t kMaxLayers = 1024, kMaxWidth = 1 << 16, kMaxContext = 1 << 20, kMaxBatch = 1 << 20;
// Numbers of tables by position, 512 MiB, and by offset in all layers, which take six times their 128 MiB while they are
// computed.
constexpr int64_t kMaxByPosition = 1 << 27, kMaxByOffset = 1 << 25;

// The buckets that the encoder makes for t5.
T5Options T5OptionsOf(const ModelOptions& model) {
  return {nn::PositionOptions().buckets, RelativeDistance(model), model.objective != Objective::kCausal};
}

void ValidateHeads(const ModelOptions& model) {
  if (model.width % model.heads != 0) {
    throw InvalidArgument(fmt::format("width: {} is not divisible by {} heads", model.width, model.heads));
  }
}

void ValidatePosition(const ModelOptions& model) {
  const nn::PositionScheme scheme = nn::ParsePositionScheme(model.position);
  const int64_t head_width = model.width / model.heads;
  if (nn::NeedsCausal(scheme) && model.objective != Objective::kCausal)
    throw InvalidArgument("position: " + model.position +
                          " needs the causal objective: its scores grow towards later characters");
  if (nn::TurnsPairs(scheme) && head_width % 2 != 0) {
    throw InvalidArgument(
        fmt::format("position: {} turns pairs of columns and needs an even head width; width {} over {} heads gives {}",
                    model.position, model.width, model.heads, head_width));
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
      throw InvalidArgument(
          fmt::format("{}: {} makes positional tables of {} numbers; expected at most {}", name, value, numbers, most));
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

std::vector<std::string> QueryKeyNormNames() { return {"none", "l2", "rms"}; }

nn::QueryKeyNormKind ParseQueryKeyNorm(const std::string& name) {
  const std::vector<std::string> names = QueryKeyNormNames();
  RequireKnown("query_key_norm", {name}, names);
  return static_cast<nn::QueryKeyNormKind>(std::ranges::find(names, name) - names.begin());  // in the order of the kinds
}

Fields FieldsOf(ModelOptions& model) {
  Field untied = Switch("tied", model.tied, "Head and embedding share one matrix");
  untied.old = {"!untied"};
  return Grouped(
      {Names("encoder", &model.encoder, EncoderNames(), "Encoder"),
       Names("position", &model.position, PositionSchemeNames(),
             "Positional scheme of attention; the other encoders take none"),
       {.name = "objective",
        .value = &model.objective,
        .text = "causal: the next character; masked: hidden characters from both sides"},
       Whole("layers", &model.layers, 1, kMaxLayers, "Layers"),
       Whole("heads", &model.heads, 1, kMaxWidth, "Heads of attention; divides the width"),
       Whole("width", &model.width, 1, kMaxWidth, "Features of a step"),
       Whole("context", &model.context, 1, kMaxContext, "Steps of a training window"),
       Whole("ffn_width", &model.ffn_width, -1, 4 * kMaxWidth, "Width of the feed-forward sublayer; 0: none, -1: 4 * width"),
       Whole("kernel", &model.kernel, 1, 1 << 10, "Kernel of the convolutions"),
       Whole("max_distance", &model.max_distance, 0, kMaxContext,
             "relative, shaw, transformer_xl, deberta, decomposable: largest offset; t5: from where on offsets share a bucket; "
             "cope: number of positions; 0: half the context"),
       NumberFrom("dropout", model.dropout, 0, 1, "Probability of dropping, in training"),
       Switch("bias", model.bias, "Biases in the attention's projections"),
       untied,
       Names("precision", &model.precision, {"float32", "float64"}, "Type of the weights and of the computation"),
       Names("query_key_norm", &model.query_key_norm, QueryKeyNormNames(), "How attention normalises queries and keys")},
      "Model");
}

Fields FieldsOf(TrainOptions& train) {
  constexpr int64_t kMostSteps = int64_t{1} << 40;
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  return Grouped(
      {Whole("batch", &train.batch, 1, kMaxBatch, "Windows a step"), Whole("steps", &train.steps, 1, kMostSteps, "Steps"),
       Names("schedule", &train.schedule, {"cosine", "free"},
             "cosine: the rate falls until the last step; free: the rate stays, and the weights are their mean over the steps"),
       Number("lr", train.lr, 0, kInfinity, "Learning rate after the warm-up"),
       NumberFrom("min_lr", train.min_lr, 0, kInfinity, "Learning rate at the last step of cosine; default: a tenth of --lr"),
       Whole("warmup", &train.warmup, -1, kMostSteps, "Steps of linear warm-up; -1: a fifth of --steps, with free 100"),
       NumberFrom("beta1", train.beta1, 0, 1, "AdamW's decay of the mean gradient"),
       NumberFrom("beta2", train.beta2, 0, 1, "AdamW's decay of the mean square"),
       Number("zero_rate", train.zero_rate, 0, kInfinity, "Rate of parameters that start at zero, in units of --lr"),
       NumberFrom("weight_decay", train.weight_decay, 0, kInfinity, "AdamW's weight decay, of matrices only"),
       NumberFrom("penalty", train.penalty, 0, kInfinity,
                  "self-attentive: weight in the loss of the overlap between its rows of weights"),
       NumberFrom("clip", train.clip, 0, kInfinity, "Largest norm of the gradient; 0: no limit"),
       Whole("eval_every", &train.eval_every, 1, kMostSteps, "Steps between passes over the validation split"),
       Seed(train.seed)},
      "Training");
}

TrainOptions ShortTraining(int64_t steps, double lr, double weight_decay) {
  TrainOptions training;
  training.steps = steps;
  training.lr = lr;
  training.min_lr = lr / 10;
  training.weight_decay = weight_decay;
  return training;
}

void Validate(const ModelOptions& model) {
  ModelOptions checked = model;
  Check(FieldsOf(checked));
  if (nn::HasHeads(model.encoder)) ValidateHeads(model);
  if (model.query_key_norm != "none" && model.encoder != "attention")
    throw InvalidArgument("query_key_norm: '" + model.query_key_norm + "' needs the attention encoder, got " + model.encoder);
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
  TrainOptions checked = train;
  Check(FieldsOf(checked));
  if (train.penalty > 0 && train.model.encoder != "self-attentive")
    throw InvalidArgument("penalty: needs the self-attentive encoder, got " + train.model.encoder);
  if (train.min_lr > train.lr)
    throw InvalidArgument("min_lr: " + FormatNumber(train.min_lr) + " is not between 0 and lr, " + FormatNumber(train.lr));
}

int64_t WarmUp(const TrainOptions& train) {
  constexpr int64_t kFree = 100;
  if (train.warmup >= 0) return train.warmup;
  return train.schedule == "free" ? kFree : train.steps / 5;
}

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
