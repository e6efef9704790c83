// Convolution, recurrence and self-attention side by side: operations, sequential steps, memory and paths between positions,
// counted on running layers and compared with closed formulas; time and influence measured; where one becomes dearer than
// another.
#ifndef HEED_BOOK_COMPARISON_COMPARISON_H_
#define HEED_BOOK_COMPARISON_COMPARISON_H_

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "book/comparison/layer.h"
#include "lab/options/fields.h"
#include "lab/report/figure.h"

namespace heed::lab {

struct Exponent {
  double value;
  double standard_error;  // 0 with no more points than unknowns
};

// y is about c x_1^e_1 x_2^e_2 ...; one exponent per factor, by least squares on logarithms. x[f] and y hold one number per
// point, all positive. The factors must be uncorrelated in their logarithms, as over a complete grid (or be one alone), and
// each take two values at least.
std::vector<Exponent> FitPowerLaw(const std::vector<std::vector<double>>& x, const std::vector<double>& y);

// By how much a fitted exponent may differ from theory: terms of lower order (taps beyond the ends, the diagonal of a causal
// mask) still show on a grid of such lengths.
inline constexpr double kExponentTolerance = 0.05;

struct FittedExponent {
  std::string of;  // "n", "d", "k", "2w + 1", "k - 1", "w"
  Exponent fitted;
  double theory;
};

// How a term of a layer's cost grows with length, width and reach: fitted to counts of running layers over a grid.
struct TermExponents {
  std::string layer, quantity;  // "self-attention", "score products" or "hops"
  bool over_log_n;              // the quantity was divided by log2 n before the fit
  std::vector<FittedExponent> exponents;

  double LargestDeviation() const;
};

// One entry for each term of the layer, and one for the hops where they are a power. Counts over n = 512, 1024, 2048,
// d = 1, 2, 4 and a kernel (or 2w + 1) of 3, 5, 9; hops over n = 65, 129, 257. Takes about a second for self-attention.
std::vector<TermExponents> FitExponents(const Layer& layer);

// How strongly an encoder's output at the last position depends on inputs at a distance: gradients of real encoders.
struct InfluenceOptions {
  int64_t length = 256;
  int64_t width = 64;
  int64_t kernel = 3;
  int64_t heads = 1;
  int64_t layers = 2;
  uint64_t seed = 0;
};

struct InfluenceCurve {
  std::string encoder;  // as nn::MakeEncoder names it
  // By distance: log10 of the Frobenius norm of dy_last / dx_(last - distance). -inf where the norm is 0, as beyond a receptive
  // field, or below 1e-308, the smallest normal double.
  std::vector<double> log10;
};

// Of a causal encoder without positions and feed-forward sublayers as it is initialised, at normal inputs, by autograd in
// double. The norm runs over at most 16 output channels, scaled to all of them: at initialisation they are alike.
InfluenceCurve MeasureInfluence(const std::string& encoder, const InfluenceOptions& options);
// Of every encoder, in the order of nn::EncoderNames.
std::vector<InfluenceCurve> MeasureInfluences(const InfluenceOptions& options);

// From which length on self-attention costs at least as much as another layer.
struct Crossover {
  std::string than;            // "its own projections", or the name of a layer
  int64_t scores;              // the smallest length at which scores and sums take at least as many multiply-adds
  int64_t whole = 0;           // the same with the projections; 0 against these themselves
  double seconds = 0;          // the measured length, between two that were timed; 0 when there is none
  std::string in_words = "-";  // "about 210", "below 16", "beyond 1024"; "-" when not measured
};

// Of `attention`, which looks at all positions, against its own projections and against every layer of `layers` that neither
// attends nor is dilated (which costs what the contiguous one costs, but at the ends).
std::vector<Crossover> CountedCrossovers(const Layer& attention, const std::vector<const Layer*>& layers,
                                         const LayerShape& shape);

// Where curve `dearer` comes to lie above curve `than` for good, interpolated on logarithms; both over the same increasing
// lengths, positive. Fills seconds and in_words.
void MeasureCrossover(const std::vector<int64_t>& lengths, const std::vector<double>& dearer, const std::vector<double>& than,
                      Crossover& crossover);

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
  bool fit_exponents = true;       // over a grid of their own, see FitExponents
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
