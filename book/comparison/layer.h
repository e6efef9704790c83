// What a layer is to the comparison: one computation for both scalars, and the formulas it must obey.
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
#include "book/comparison/numbers.h"
#include "book/comparison/tally.h"

namespace heed::lab {

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
template <class Scalar>
using LayerWeights = std::vector<std::vector<Scalar>>;

class Layer {
 public:
  virtual ~Layer() = default;
  const LayerFacts& facts() const { return facts_; }
  const std::string& name() const { return facts_.name; }

  // Scalars of each matrix.
  virtual std::vector<int64_t> WeightSizes(const LayerShape& shape) const = 0;

  // x and the result: [length, width], row-major; length >= 1.
  virtual Activations<Counted> Run(const LayerShape& shape, const LayerWeights<Counted>& weights,
                                   std::span<const Counted> x) const = 0;
  virtual Activations<Traced> Run(const LayerShape& shape, const LayerWeights<Traced>& weights,
                                  std::span<const Traced> x) const = 0;

  // What a run must be found to cost, exact to the last operation.
  virtual LayerNumbers Expected(const LayerShape& shape, int64_t length) const = 0;

  // Terms of the longest sum, which bounds how far two orders of summing may lie apart.
  virtual int64_t LongestSum(const LayerShape& shape, int64_t length) const = 0;

 protected:
  explicit Layer(LayerFacts facts) : facts_(std::move(facts)) {}

 private:
  LayerFacts facts_;
};

// A layer from its body, which has Facts, WeightSizes, Expected and LongestSum as above, and Run as a template over the scalar.
template <class Body>
class LayerOf final : public Layer {
 public:
  explicit LayerOf(Body body) : Layer(body.Facts()), body_(body) {}

  std::vector<int64_t> WeightSizes(const LayerShape& shape) const override { return body_.WeightSizes(shape); }
  Activations<Counted> Run(const LayerShape& shape, const LayerWeights<Counted>& weights,
                           std::span<const Counted> x) const override {
    return body_.Run(shape, weights, x);
  }
  Activations<Traced> Run(const LayerShape& shape, const LayerWeights<Traced>& weights,
                          std::span<const Traced> x) const override {
    return body_.Run(shape, weights, x);
  }
  LayerNumbers Expected(const LayerShape& shape, int64_t length) const override { return body_.Expected(shape, length); }
  int64_t LongestSum(const LayerShape& shape, int64_t length) const override { return body_.LongestSum(shape, length); }

 private:
  Body body_;
};

}  // namespace heed::lab

#endif  // HEED_BOOK_COMPARISON_LAYER_H_
