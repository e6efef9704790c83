#ifndef HEED_BOOK_COMPARISON_LAYERS_LINEAR_CHUNKS_H_
#define HEED_BOOK_COMPARISON_LAYERS_LINEAR_CHUNKS_H_

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "book/comparison/layers/linear_mixer.h"

namespace heed::lab {

// Linear attention as heed's kernels compute it, 64 steps at a time (Dao and Gu 2024, section 6): within a chunk as attention
// over pairs of steps, with the state for all chunks before. What a chunk adds to the state is one sum over its steps, so that
// only chunks wait for each other. Computes what LinearMixer's kLinear computes. Weights: in_proj [3 * width, width] of v, k
// and q, out_proj [width, width].
struct LinearChunks {
  static constexpr int64_t kChunk = 64;

  LayerFacts Facts() const {
    LayerFacts facts = LinearMixer{LinearMixer::Kind::kLinear}.Facts();
    facts.id = "linear-chunked";
    facts.name = "linear attention (chunks)";
    facts.multiply_adds = "4 n d² + 2 n d² / h + 66 n d (n = 64, 128, ...)";
    facts.steps = facts.hops = "⌈n / 64⌉";
    facts.memory = "n d + d² / h + 2 d + min(n, 64) (3 d + 1)";
    facts.growth.insert(facts.growth.end(), {{Term::kScores, {.n = 1, .d = 1}}, {Term::kSums, {.n = 1, .d = 1}}});
    facts.path.reset();
    return facts;
  }
  std::vector<int64_t> WeightSizes(const LayerShape& shape) const {
    return LinearMixer{LinearMixer::Kind::kLinear}.WeightSizes(shape);
  }

  Activations Run(const LayerShape& shape, const LayerWeights& weights, std::span<const Counted> x) const {
    const int64_t d = shape.width, n = static_cast<int64_t>(x.size()) / d, most = std::min(n, kChunk);
    Activations y(n * d);
    Arrays of(shape, most);
    for (int64_t first = 0; first < n; first += most) {
      of.rows = std::min(most, n - first);
      of.Project(weights[0], &x[first * d]);
      for (int64_t row = 0; row < of.rows; ++row) {
        of.Mix(row);
        const std::span<Counted> y_i = std::span(y).subspan((first + row) * d, d);
        Multiply(Term::kProjections, weights[1].data(), of.mixed.data(), d, y_i);
        KeepAsState(y_i, first + row);
      }
      of.Carry(first + of.rows - 1);
    }
    return y;
  }

  // The longest way: k (a product and four operations), its sum into the state, one addition a chunk, the read, an addition, a
  // division, a product.
  LayerNumbers Expected(const LayerShape& shape, int64_t n) const {
    const int64_t d = shape.width, h = shape.heads, chunks = (n + kChunk - 1) / kChunk, rest = n % kChunk;
    const int64_t pairs = n / kChunk * (kChunk * (kChunk + 1) / 2) + rest * (rest + 1) / 2, most = std::min(n, kChunk);
    LayerNumbers numbers = LinearMixer{LinearMixer::Kind::kLinear}.Expected(shape, n);
    numbers.Of(Term::kScores) = numbers.Of(Term::kSums) = pairs * d;
    numbers.operations.additions = 6 * n * d + h * pairs + chunks * d * (d / h);
    numbers.sequential_steps = chunks;
    numbers.rounds = 9 + chunks;
    numbers.span = 9 + 2 * CeilLog2(d) + CeilLog2(d / h) + CeilLog2(most) + chunks;
    numbers.memory = n * d + d * (d / h) + 2 * d + most * (3 * d + 1);
    numbers.path_length = numbers.longest_path = n > 1 ? chunks : 0;
    return numbers;
  }

 private:
  struct Arrays {
    Arrays(const LayerShape& shape, int64_t most_rows)
        : width(shape.width), head_width(shape.width / shape.heads), most(most_rows) {}

    // v, k and q of the chunk's rows.
    void Project(const std::vector<Counted>& weight, const Counted* x) {
      for (int64_t row = 0; row < rows; ++row) {
        const auto column = [&](int64_t c) {
          return Dot(Term::kProjections, Operand(&weight[c * width]), Operand(x + row * width), width);
        };
        for (int64_t c = 0; c < width; ++c) {
          v[row * width + c] = column(c);
          k[c * most + row] = EluAndOne(column(width + c));
          q[row * width + c] = EluAndOne(column(2 * width + c));
        }
      }
    }

    // What a row gets from itself and the rows before, and from the state.
    void Mix(int64_t row) {
      for (int64_t head = 0; head < width; head += head_width) {
        const Operand query(&q[row * width + head]);
        for (int64_t j = 0; j <= row; ++j) seen[j] = Dot(Term::kScores, query, Operand(&k[head * most + j], most), head_width);
        const Counted weight = Sum(std::span<const Counted>(seen.data(), row + 1)) +
                               Dot(Term::kElementwise, query, Operand(&key_sums[head]), head_width);
        for (int64_t c = head; c < head + head_width; ++c) {
          const Counted sum = Dot(Term::kSums, Operand(seen.data()), Operand(&v[c], width), row + 1) +
                              Dot(Term::kRecurrence, query, Operand(&state[c * head_width]), head_width);
          mixed[c] = sum / weight;
        }
      }
    }

    // Adds the chunk to the state.
    void Carry(int64_t position) {
      for (int64_t c = 0; c < width; ++c) {
        const Counted* const keys = &k[c / head_width * head_width * most];
        for (int64_t r = 0; r < head_width; ++r) {
          Counted& cell = state[c * head_width + r];
          cell = NewState(cell + Dot(Term::kRecurrence, Operand(keys + r * most), Operand(&v[c], width), rows), position);
        }
        key_sums[c] = NewState(key_sums[c] + Sum(std::span<const Counted>(&k[c * most], rows)), position);
      }
    }

    const int64_t width, head_width, most;
    int64_t rows = 0;                                         // of this chunk
    Activations v = Activations(most * width), k = v, q = v;  // of its rows; k [width, most]
    // Scores of a row and head; the heads' y of a row side by side.
    Activations seen = Activations(most), mixed = Activations(width);
    Activations state = Activations(width * head_width), key_sums = Activations(width);
  };
};

}  // namespace heed::lab

#endif  // HEED_BOOK_COMPARISON_LAYERS_LINEAR_CHUNKS_H_
