#include "book/comparison/counting.h"

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

bool StaysInPlace(const BitMatrix& pattern) {
  for (int64_t to = 0; to < pattern.size(); ++to) {
    for (int64_t from = 0; from < pattern.size(); ++from) {
      if (pattern.Get(to, from) && from != to) return false;
    }
  }
  return true;
}

// Layer after layer until one of them connects nothing any more, as a convolution whose dilation exceeds the length.
Paths TraceStack(const Layer& layer, LayerShape shape, int64_t length) {
  std::vector<BitMatrix> reads, receptive;
  shape.level = 0;
  do {
    TracedRun run = TraceRun(layer, shape, length);
    reads.push_back(std::move(run.reads));
    receptive.push_back(std::move(run.receptive));
    ++shape.level;
  } while (!StaysInPlace(reads.back()));
  return {Reachability(std::move(reads)), Reachability(std::move(receptive))};
}

}  // namespace

CountedRun CountRun(const Layer& layer, const LayerShape& shape, const LayerWeights<double>& weights,
                    const std::vector<double>& x) {
  LayerWeights<Counted> constants;
  for (const std::vector<double>& matrix : weights) constants.emplace_back(matrix.begin(), matrix.end());
  const std::vector<Counted> input = AsInput<Counted>(x, shape.width);

  CountedRun run;
  const Recording recording;
  const Activations<Counted> output = layer.Run(shape, constants, input);
  run.products = recording.tally().products;
  run.operations = recording.tally().operations;
  run.memory = recording.tally().peak;
  run.values.reserve(output.size());
  for (const Counted& scalar : output) {
    run.depth.Raise(scalar.depth());
    run.values.push_back(scalar.value());
  }
  return run;
}

TracedRun TraceRun(const Layer& layer, const LayerShape& shape, int64_t length) {
  LayerShape narrow = shape;
  narrow.width = narrow.heads = 1;
  LayerWeights<Traced> weights;
  for (const int64_t size : layer.WeightSizes(narrow)) weights.emplace_back(size, Traced(1.0));
  const std::vector<Traced> input = AsInput<Traced>(std::vector<double>(length), 1);

  std::vector<PositionSet> reads(length), receptive(length);
  const Recording recording(&reads);
  const Activations<Traced> output = layer.Run(narrow, weights, input);
  for (std::size_t i = 0; i < output.size(); ++i) receptive[i] = output[i].origin().inputs;
  return {BitMatrix(reads), BitMatrix(receptive)};
}

Paths TracePaths(const Layer& layer, const LayerShape& shape, int64_t length) {
  if (layer.facts().changes_with_level) return TraceStack(layer, shape, length);
  TracedRun run = TraceRun(layer, shape, length);
  return {Reachability(std::move(run.reads)), Reachability(std::move(run.receptive))};
}

LayerNumbers CountedNumbers(const Layer& layer, const LayerShape& shape, int64_t length, const CountedRun& count) {
  LayerNumbers numbers;
  numbers.products = count.products;
  numbers.operations = count.operations;
  numbers.sequential_steps = count.depth.steps;
  numbers.rounds = count.depth.rounds;
  numbers.span = count.depth.span;
  numbers.memory = count.memory;
  const Paths paths = TracePaths(layer, shape, length);
  numbers.path_length = paths.hops.Hops(0, length - 1);
  numbers.longest_path = paths.hops.LongestPath(layer.facts().causal);
  numbers.layers_to_connect = paths.layers.UntilSeenTogether(0, length - 1);
  return numbers;
}

}  // namespace heed::lab
