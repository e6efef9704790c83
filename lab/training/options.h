// What to train and how. Sizes, steps and rates of the defaults are the published recipe for a character model on one small
// text: nanoGPT's configuration for CPUs (README, "I only have a macbook"). How models start, the warm-up and the rate of what
// starts at zero are chosen by measurements, which docs/study.md tells of.
#ifndef HEED_LAB_TRAINING_OPTIONS_H_
#define HEED_LAB_TRAINING_OPTIONS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "lab/data/text.h"
#include "lab/options/fields.h"

namespace heed::nn {
enum class QueryKeyNormKind;
}

namespace heed::lab {

// "none", "l2", "rms": how queries and keys are normalised.
std::vector<std::string> QueryKeyNormNames();
// Throws InvalidArgument that lists them.
nn::QueryKeyNormKind ParseQueryKeyNorm(const std::string& name);

struct ModelOptions {
  std::string encoder = "attention";  // of EncoderNames()
  std::string position = "learned";   // of PositionSchemeNames(); the other encoders take none only
  Objective objective = Objective::kCausal;
  int64_t layers = 4;
  int64_t heads = 4;  // of encoders that have them
  int64_t width = 128;
  int64_t context = 64;    // steps of a training window; rows of a learned table
  int64_t ffn_width = -1;  // -1: 4 * width; 0: no feed-forward sublayer
  int64_t kernel = 3;      // of convolutions
  // Where offsets are clipped (relative, shaw; the decomposable encoder) or share a bucket (t5); 0: half the context, so that
  // the ends are trained.
  int64_t max_distance = 0;
  double dropout = 0.0;
  bool bias = true;                     // of the attention's projections, as in GPT-2
  bool tied = false;                    // the head reads the embedding's matrix
  std::string precision = "float32";    // or float64: of the weights and of all that is computed with them
  std::string query_key_norm = "none";  // of QueryKeyNormNames(); of the attention encoder alone
};

struct TrainOptions {
  ModelOptions model;
  int64_t batch = 12;  // windows a step
  int64_t steps = 2000;
  std::string schedule = "cosine";  // or free, see AdamW: after any number of steps as good as one that fell until there
  double lr = 1e-3;                 // after the warm-up
  double min_lr = 1e-4;             // at the last step, of "cosine"
  int64_t warmup = -1;              // steps; -1: a fifth of them, with "free" 100
  double beta1 = 0.9, beta2 = 0.99;
  double zero_rate = 10;      // of parameters that start at zero, in units of lr, see AdamW
  double weight_decay = 0.1;  // of matrices only
  double penalty = 0;         // weight of nn::SequenceEncoder::penalty in the loss, of the self-attentive encoder alone
  double clip = 1.0;          // largest norm of the gradient; 0: no clipping
  int64_t eval_every = 250;   // steps between two passes over the validation split
  uint64_t seed = 0;
};

// By their names in config.json; the second of the training alone, with its seed.
Fields FieldsOf(ModelOptions& model);
Fields FieldsOf(TrainOptions& train);

// Of short runs that are compared: the warm-up of the defaults, then the rate falls to a tenth of lr unless the schedule is
// another.
TrainOptions ShortTraining(int64_t steps, double lr, double weight_decay);

int64_t WarmUp(const TrainOptions& train);  // steps, once the default is resolved

// Throw InvalidArgument that names the option and what it may be.
void Validate(const ModelOptions& model);
void Validate(const TrainOptions& train);

// The width of the feed-forward sublayer and the distance of positional schemes once the defaults are resolved. A short context
// still leaves T5 the least distance that its buckets need.
int64_t FeedForwardWidth(const ModelOptions& model);
int64_t RelativeDistance(const ModelOptions& model);

}  // namespace heed::lab

#endif  // HEED_LAB_TRAINING_OPTIONS_H_
