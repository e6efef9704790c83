// Convolution, recurrence and self-attention side by side: operations, sequential steps, memory and paths between positions,
// counted on running layers and compared with closed formulas; time and influence measured; where one becomes dearer than
// another.
#ifndef HEED_BOOK_COMPARISON_COMPARISON_H_
#define HEED_BOOK_COMPARISON_COMPARISON_H_

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "book/comparison/crossover.h"
#include "book/comparison/exponents.h"
#include "book/comparison/influence.h"
#include "book/comparison/layer.h"
#include "book/comparison/layers.h"
#include "book/comparison/numbers.h"
#include "lab/options/fields.h"
#include "lab/report/figure.h"

namespace heed::lab {

struct ComparisonOptions {
  std::vector<const Layer*> layers = AllLayers();
  std::vector<int64_t> lengths = {16, 32, 64, 128, 256, 512, 1024};  // 1 to 2^20, increasing
  int64_t width = 64;                                                // 1 to 8192
  int64_t kernel = 3;                                                // odd, 1 to 1023
  int64_t heads = 1;                                                 // divides width
  int64_t window = 8;                                                // 1 to 2^20
  uint64_t seed = 0;                                                 // of weights and inputs
  bool no_time = false;                                              // count only
  std::vector<int> thread_counts;  // of time; empty: 1, 2, 4, .. and as many as LibTorch computes with
  bool fit_exponents = true;       // over a grid of their own, see exponents.h
  int64_t influence_length = 256;  // of influence curves, 2 to 4096; 0: none
  bool quiet = true;               // no progress on stderr
  // Layers of more multiply-adds than this are not run on the counting scalar (a few nanoseconds each), nor are lengths
  // traced beyond `longest_trace`; their rows hold the formulas and the time only.
  int64_t counting_limit = 2'000'000'000;
  int64_t longest_trace = 4096;
};

// `layers`: the ids of the options' layers, which stand for them on the command line.
Fields FieldsOf(ComparisonOptions& options, std::vector<std::string>& layers);
// The command that gives the same numbers, in this folder.
std::string CommandOf(const ComparisonOptions& options, const std::filesystem::path& folder);

// One layer at one length.
struct ComparisonRow {
  const Layer* layer;
  LayerShape shape;
  int64_t length;
  bool counted;           // false beyond the limits: `found`, `error` and `value_error` are then meaningless
  LayerNumbers found;     // of the running layer
  LayerNumbers expected;  // of the formulas
  int64_t error;          // the largest difference of the two
  // Largest |counted layer - nn layer| with the same weights, in double: units of epsilon * largest |value|.
  double value_error;
  double value_bound;           // what value_error may be: sums of m terms in two orders
  std::vector<double> seconds;  // by number of threads: fastest forward pass of the nn layer in float32, batch of one

  const LayerNumbers& numbers() const { return counted ? found : expected; }
  double best_seconds() const { return seconds.empty() ? 0 : seconds.back(); }  // with all threads; 0 when not measured
};

struct TimeGrowth {
  std::string layer;
  Exponent of_length;
};

struct Comparison {
  ComparisonOptions options;        // thread_counts as they were used
  std::vector<ComparisonRow> rows;  // by layer, then by length
  std::vector<Crossover> crossovers;
  std::vector<TermExponents> exponents;
  std::vector<TimeGrowth> time_growth;  // over the longer half of at least two lengths
  std::vector<InfluenceCurve> influence;
  std::vector<Figure> figures;
  int64_t largest_error;  // over the counted rows

  bool AllAgree() const;  // all of Checks
};

struct ComparisonCheck {
  std::string what;
  bool passed;
  std::string found;
};

// Per layer, over all lengths: the counts equal the formulas exactly, and the values those of the nn layer up to rounding. What
// was not counted has not passed. Then the exponents, when they were fitted.
std::vector<ComparisonCheck> Checks(const Comparison& comparison);

// Throws InvalidArgument naming the option, and Interruption after Ctrl-C where it is watched for.
Comparison Compare(const ComparisonOptions& options);

}  // namespace heed::lab

#endif  // HEED_BOOK_COMPARISON_COMPARISON_H_
