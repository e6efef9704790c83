#include "lab/comparison/counting.h"

#include <utility>

namespace heed::lab {
namespace {

template <class Scalar>
std::vector<Scalar> AsInput(const std::vector<double>& x, int64_t width) {
  std::vector<Scalar> input;
  input.reserve(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) input.push_back(Scalar::Input(x[i], static_cast<int64_t>(i) / width));
  return input;
}

}  // namespace

CountedRun CountRun(const LayerShape& layer, const LayerWeights<double>& weights, const std::vector<double>& x) {
  LayerWeights<Counted> constants;
  for (const std::vector<double>& matrix : weights) constants.emplace_back(matrix.begin(), matrix.end());
  const std::vector<Counted> input = AsInput<Counted>(x, layer.width);

  CountedRun run;
  const Recording recording;
  const std::vector<Counted> output = RunLayer(layer, constants, input);
  run.projections = recording.Of(Stage::kProjections);
  run.mixing = recording.Of(Stage::kMixing);
  run.values.reserve(output.size());
  for (const Counted& scalar : output) {
    run.depth.Raise(scalar.depth());
    run.values.push_back(scalar.value());
  }
  return run;
}

TracedRun TraceRun(const LayerShape& layer, int64_t length) {
  LayerShape narrow = layer;
  narrow.width = layer.kind == LayerKind::kSelfAttention ? layer.heads : 1;
  LayerWeights<Traced> weights;
  for (const int64_t size : WeightSizes(narrow)) weights.emplace_back(size, Traced(1.0));
  const std::vector<Traced> input = AsInput<Traced>(std::vector<double>(length * narrow.width), narrow.width);

  std::vector<PositionSet> reads(length), receptive(length);
  const Recording recording(&reads);
  const std::vector<Traced> output = RunLayer(narrow, weights, input);
  for (std::size_t i = 0; i < output.size(); ++i) receptive[i / narrow.width] |= output[i].origin().inputs;
  return {BitMatrix(reads), BitMatrix(receptive)};
}

LayerNumbers CountedNumbers(const LayerShape& layer, const CountedRun& count, const TracedRun& trace) {
  LayerNumbers numbers;
  numbers.projections = count.projections;
  numbers.mixing = count.mixing;
  numbers.sequential_steps = count.depth.steps;
  numbers.rounds = count.depth.rounds;
  numbers.span = count.depth.span;
  const int64_t last = trace.reads.size() - 1;
  const Reachability hops(trace.reads);
  numbers.path_length = hops.Hops(0, last);
  numbers.longest_path = hops.LongestPath(layer.causal());
  numbers.layers_to_connect = Reachability(trace.receptive).UntilSeenTogether(0, last);
  return numbers;
}

}  // namespace heed::lab
