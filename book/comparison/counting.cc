#include "book/comparison/counting.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace heed::lab {
namespace {

std::vector<Counted> AsInput(const std::vector<double>& x, int64_t width) {
  std::vector<Counted> input;
  input.reserve(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) input.push_back(Counted::Input(x[i], static_cast<int64_t>(i) / width));
  return input;
}

// From what each position reads.
Pattern PatternOf(const std::vector<Positions>& reads) {
  Pattern pattern(reads.size(), Positions(reads.size()));
  for (std::size_t to = 0; to < reads.size(); ++to) {
    for (std::size_t from = reads[to].find_first(); from != Positions::npos; from = reads[to].find_next(from)) {
      pattern[from].set(to);
    }
  }
  return pattern;
}

bool StaysInPlace(const Pattern& pattern) {
  for (std::size_t from = 0; from < pattern.size(); ++from) {
    if (pattern[from].count() > (pattern[from][from] ? 1 : 0)) return false;
  }
  return true;
}

}  // namespace

std::vector<int64_t> Reachability::HopsFrom(int64_t from) const {
  const std::size_t size = layers_.front().size();
  std::vector<int64_t> hops(size, kNever);
  Positions reached(size), fresh(size);
  fresh.set(from);
  for (int64_t layer = 0; fresh.any() || !uniform_; ++layer) {
    for (std::size_t to = fresh.find_first(); to != fresh.npos; to = fresh.find_next(to)) hops[to] = layer;
    reached |= fresh;
    if (!uniform_ && layer == std::ssize(layers_)) break;
    const Pattern& pattern = layers_[uniform_ ? 0 : layer];
    // Where layers are alike, what was reached before has been followed before.
    const Positions followed = uniform_ ? fresh : reached;
    fresh.reset();
    for (std::size_t at = followed.find_first(); at != followed.npos; at = followed.find_next(at)) fresh |= pattern[at];
    fresh -= reached;
  }
  return hops;
}

int64_t Reachability::LongestPath(bool causal) const {
  int64_t longest = 0;
  for (int64_t from = 0; from < std::ssize(layers_.front()); ++from) {
    const std::vector<int64_t> hops = HopsFrom(from);
    const auto [least, most] = std::ranges::minmax_element(hops.begin() + (causal ? from : 0), hops.end());
    if (*least == kNever) return kNever;
    longest = std::max(longest, *most);
  }
  return longest;
}

int64_t Reachability::UntilSeenTogether(int64_t a, int64_t b) const {
  const std::vector<int64_t> of_a = HopsFrom(a), of_b = HopsFrom(b);
  int64_t least = kNever;
  for (std::size_t i = 0; i < of_a.size(); ++i) {
    const int64_t both = std::max(of_a[i], of_b[i]);
    if (of_a[i] != kNever && of_b[i] != kNever && (least == kNever || both < least)) least = both;
  }
  return least;
}

CountedRun CountRun(const Layer& layer, const LayerShape& shape, const LayerWeights& weights, const std::vector<double>& x) {
  const std::vector<Counted> input = AsInput(x, shape.width);
  CountedRun run;
  const Recording recording;
  const Activations output = layer.Run(shape, weights, input);
  Depth depth;  // the deepest of the outputs
  run.values.reserve(output.size());
  for (const Counted& scalar : output) {
    depth.Raise(scalar.depth());
    run.values.push_back(scalar.value());
  }
  const Tally& tally = recording.tally();
  run.numbers = {.products = tally.products,
                 .operations = tally.operations,
                 .sequential_steps = depth.steps,
                 .rounds = depth.rounds,
                 .span = depth.span,
                 .memory = tally.peak};
  return run;
}

TracedRun TraceRun(const Layer& layer, const LayerShape& shape, int64_t length) {
  LayerShape narrow = shape;
  narrow.width = narrow.heads = 1;
  LayerWeights weights;
  for (const int64_t size : layer.WeightSizes(narrow)) weights.emplace_back(size, 1.0);

  std::vector<Positions> reads(length, Positions(length)), receptive = reads;
  const Recording recording(&reads);
  const Activations output = layer.Run(narrow, weights, AsInput(std::vector<double>(length), 1));
  for (std::size_t i = 0; i < output.size(); ++i) receptive[i] = output[i].origin()->inputs;
  return {PatternOf(reads), PatternOf(receptive)};
}

Paths TracePaths(const Layer& layer, LayerShape shape, int64_t length) {
  const bool changes = layer.facts().changes_with_level;
  std::vector<Pattern> reads, receptive;
  // Layer after layer until one of them connects nothing any more, as a convolution whose dilation exceeds the length.
  shape.level = changes ? 0 : shape.level;
  do {
    TracedRun run = TraceRun(layer, shape, length);
    if (!changes) return {Reachability(std::move(run.reads)), Reachability(std::move(run.receptive))};
    reads.push_back(std::move(run.reads));
    receptive.push_back(std::move(run.receptive));
    ++shape.level;
  } while (!StaysInPlace(reads.back()));
  return {Reachability(std::move(reads)), Reachability(std::move(receptive))};
}

CountedRun CountAll(const Layer& layer, const LayerShape& shape, const LayerWeights& weights, const std::vector<double>& x) {
  CountedRun run = CountRun(layer, shape, weights, x);
  const int64_t length = static_cast<int64_t>(x.size()) / shape.width;
  const Paths paths = TracePaths(layer, shape, length);
  run.numbers.path_length = paths.hops.Hops(0, length - 1);
  run.numbers.longest_path = paths.hops.LongestPath(layer.facts().causal);
  run.numbers.layers_to_connect = paths.layers.UntilSeenTogether(0, length - 1);
  return run;
}

}  // namespace heed::lab
