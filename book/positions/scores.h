// Measures how a scheme changes scores, through the fused attention in double precision.
#ifndef HEED_BOOK_POSITIONS_SCORES_H_
#define HEED_BOOK_POSITIONS_SCORES_H_

#include <cstdint>
#include <memory>
#include <string>

#include <ATen/core/Tensor.h>

#include "book/positions/positions.h"
#include "heed/nn/attention_position.h"

namespace heed::lab {

// While it lives, PyTorch's default generator, from which modules draw, starts from the seed; afterwards it goes on as if
// nothing had been drawn.
class SeededGenerator {
 public:
  explicit SeededGenerator(uint64_t seed);
  ~SeededGenerator();
  SeededGenerator(const SeededGenerator&) = delete;
  SeededGenerator& operator=(const SeededGenerator&) = delete;

 private:
  at::Tensor state_;
};

SchemeTable MatrixTable(const std::string& scheme, const at::Tensor& matrix);

// A new scheme inside attention of the options' name and sizes, as its module starts it, from options.seed alone.
std::shared_ptr<nn::AttentionPosition> StartingScheme(const PositionsOptions& options);

// A copy whose parameters are double, so that nothing but the scheme itself is measured.
std::shared_ptr<nn::AttentionPosition> InDouble(const nn::AttentionPosition& scheme);

// Whether its scores are for keys up to the query alone.
bool NeedsCausal(const nn::AttentionPosition& scheme);

// The factor of products of queries and keys of this width.
double ScaleOf(const nn::AttentionPosition& scheme, int64_t head_dim);

// A query and a key [heads, head width], independent N(0, 1), drawn from the seed.
struct QueryAndKey {
  at::Tensor query, key;
};
QueryAndKey RandomQueryAndKey(int64_t heads, int64_t head_dim, uint64_t seed);

// The score [pairs, heads] of one query and one key, [heads, head width] double, in each head, where they stand at these
// positions, int64 [pairs], of several axes [pairs, axes]. Each pair is an attention of its own: over a single key the
// log-sum-exp is the score, however low it is. -inf where causality, for those that need it, hides the key. A scheme that
// counts keys meets as many of the same key as there are positions from the key's to the query's.
at::Tensor ScoresAt(const std::shared_ptr<const nn::AttentionPosition>& scheme, const QueryAndKey& tokens,
                    const at::Tensor& query_positions, const at::Tensor& key_positions);

constexpr double kFourierScale = 1.0;  // suits positions within 0 .. 1

// The rows of schemes that are added to the input, as the modules start them, drawn from options.seed alone: [steps, width].
SchemeTable LearnedRows(const PositionsOptions& options);
// Of positions 0, 1 / steps, 2 / steps ...
SchemeTable RandomFourierRows(const PositionsOptions& options);

// Of a scheme, what is drawn; options.steps, width, head_width and seed say how much of it.
// Biases by head and offset that the module hands to attention, or key vectors by offset.
SchemeTable TableOfScheme(const nn::AttentionPosition& scheme, const PositionsOptions& options);
// [heads, 2 * steps - 1]: what is added to the score of a query and a key of zeros, by offset; the query stands at steps - 1.
SchemeTable BiasByOffset(const nn::AttentionPosition& scheme, const PositionsOptions& options);
// The same, and beside it what queries farther along a text see in the first head.
SchemeTable BiasByOffsetAndQuery(const nn::AttentionPosition& scheme, const PositionsOptions& options);
// The same of a random query and key: their score less their product.
SchemeTable TermByOffset(const nn::AttentionPosition& scheme, const PositionsOptions& options);
// [pairs of columns, steps]: the product of a pair with itself so many positions before it.
SchemeTable PairsByDistance(const nn::AttentionPosition& scheme, const PositionsOptions& options);
// [heads, 1]: the score of a pair whose score is 1 without the scheme.
SchemeTable Multipliers(const nn::AttentionPosition& scheme, const PositionsOptions& options);

}  // namespace heed::lab

#endif  // HEED_BOOK_POSITIONS_SCORES_H_
