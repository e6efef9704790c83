// What a layer is to the comparison: a computation on counted scalars, and the formulas it must obey.
#ifndef HEED_BOOK_COMPARISON_LAYER_H_
#define HEED_BOOK_COMPARISON_LAYER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "book/comparison/counted.h"

namespace heed::lab {

inline constexpr int64_t kNever = -1;  // of paths that do not exist

// The numbers of one layer at one length, counted on a run or computed from formulas.
struct LayerNumbers {
  Products products{};            // multiply-adds by term
  Operations operations;          // everything else
  int64_t sequential_steps = 0;   // states that must be computed one after the other
  int64_t rounds = 0;             // longest chain of operations, a reduction being one
  int64_t span = 0;               // longest chain of operations, a reduction of m terms being ceil(log2(m))
  int64_t memory = 0;             // the most activations held at once, beside the layer's input
  int64_t path_length = 0;        // hops from the first to the last position, stacking layers as needed; kNever
  int64_t longest_path = 0;       // the most hops between any two positions that the layer may connect; kNever
  int64_t layers_to_connect = 0;  // layers until first and last position lie in one receptive field; kNever
  // Of formulas alone, and no entry: terms of the longest sum, which bounds how far two orders of summing may lie apart.
  int64_t longest_sum = 0;

  int64_t Of(Term term) const { return products[static_cast<int>(term)]; }
  int64_t& Of(Term term) { return products[static_cast<int>(term)]; }
  int64_t multiply_adds() const;  // of all terms
  int64_t scores_and_sums() const { return Of(Term::kScores) + Of(Term::kSums); }
};

struct NamedNumber {
  std::string name;  // letters and '_', as in the header of a CSV file
  int64_t value;
};

// Every number with its name, always in the same order.
std::vector<NamedNumber> Entries(const LayerNumbers& numbers);

// The largest absolute difference of two entries.
int64_t LargestDifference(const LayerNumbers& a, const LayerNumbers& b);

struct LayerShape {
  int64_t width = 1;
  int64_t kernel = 3;  // of convolutions; odd when centred
  int64_t heads = 1;   // of self-attention and linear attention; divides the width
  int64_t window = 8;  // of windowed self-attention: how far a position sees to either side
  int64_t level = 0;   // which layer of a stack, from 0: a dilated convolution is dilated by kernel^level
};

// A cost grows as length^n width^d reach^k; `k` counts the kernel, or the keys that a window lets a position see.
struct PowerOfSizes {
  double n = 0, d = 0, k = 0;
  bool times_log_n = false;
};
struct TermGrowth {
  Term term;
  PowerOfSizes power;
};

// The size, beside length and width, that the cost of a layer depends on.
enum class Reach { kNone, kKernel, kWindow };

// What a layer is called, and its formulas in symbols for readers: n length, d width, h heads, k kernel, w window.
struct LayerFacts {
  std::string id;    // on the command line: "rnn"
  std::string name;  // in tables: "RNN"
  bool causal = false;
  bool changes_with_level = false;  // layers of a stack differ, as in dilated convolutions
  Reach reach = Reach::kNone;
  std::string multiply_adds, steps, memory, hops, layers;
  std::vector<TermGrowth> growth;    // of each of its terms
  std::optional<PowerOfSizes> path;  // of the hops in n and k - 1 (kernel) or w (window); none where they are no power
};

// Matrices, row-major, without biases; see each layer.
using LayerWeights = std::vector<std::vector<Counted>>;

class Layer {
 public:
  virtual ~Layer() = default;
  const LayerFacts& facts() const { return facts_; }
  const std::string& name() const { return facts_.name; }

  // Scalars of each matrix.
  virtual std::vector<int64_t> WeightSizes(const LayerShape& shape) const = 0;

  // x and the result: [length, width], row-major; length >= 1.
  virtual Activations Run(const LayerShape& shape, const LayerWeights& weights, std::span<const Counted> x) const = 0;

  // What a run must be found to cost, exact to the last operation.
  virtual LayerNumbers Expected(const LayerShape& shape, int64_t length) const = 0;

 protected:
  explicit Layer(LayerFacts facts) : facts_(std::move(facts)) {}

 private:
  LayerFacts facts_;
};

// A layer from its body, which has Facts, WeightSizes, Run and Expected as above.
template <class Body>
class LayerOf final : public Layer {
 public:
  explicit LayerOf(Body body) : Layer(body.Facts()), body_(body) {}

  std::vector<int64_t> WeightSizes(const LayerShape& shape) const override { return body_.WeightSizes(shape); }
  Activations Run(const LayerShape& shape, const LayerWeights& weights, std::span<const Counted> x) const override {
    return body_.Run(shape, weights, x);
  }
  LayerNumbers Expected(const LayerShape& shape, int64_t length) const override { return body_.Expected(shape, length); }

 private:
  Body body_;
};

// All layers, in the order of tables and figures.
const std::vector<const Layer*>& AllLayers();

std::vector<std::string> LayerNames();  // their ids

// By their ids, in the order of the table; InvalidArgument lists those known.
std::vector<const Layer*> LayersNamed(const std::vector<std::string>& ids);
const Layer& LayerNamed(const std::string& id);

}  // namespace heed::lab

#endif  // HEED_BOOK_COMPARISON_LAYER_H_
