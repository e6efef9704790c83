// A score program taken apart for one call: what it adds or computes for each pair, and where its gradients go.
#ifndef HEED_POSITION_PAIR_PROGRAM_SCORE_CODE_H_
#define HEED_POSITION_PAIR_PROGRAM_SCORE_CODE_H_

#include <cstddef>
#include <vector>

#include "program/code.h"

namespace heed::position {

// The forward part. An additive program is score + bias, where the bias does not depend on the score; its one result is then
// the bias, else the score that it makes of the score.
struct ForwardCode {
  program::Code code;
  bool additive = false;
};
ForwardCode ForwardCodeOf(const program::Code& program, const program::PositionForm& form);

// The forward code as the kernels run it: a score that is only ever scaled is taken in powers of two, as they have it, and a
// last constant factor is left to them. Further results stay what they are.
struct KernelCode {
  program::Code code;
  double factor = 1;  // of the first result
};
KernelCode KernelCodeOf(const program::Code& forward, bool additive);
// Whether a code reads the score in nats.
bool ReadsScore(const program::Code& code);

// A table that is read, and where the indices and the gradient stand.
struct ReadGradient {
  program::Reading reading;
  bool dot = false;
  int gradient = -1;         // a result of the gradient's code
  std::vector<int> indices;  // results likewise
};

// A value that does not depend on the pair, is made of tables whose gradient is wanted, and is used by pairs.
struct GivenGradient {
  int gradient = -1;  // a result of the pairs' gradient
  program::Domain domain;
  // From its own gradient (kGradient) to the tables: instructions of `code`, not results.
  program::Code code;
  std::vector<program::Domain> domains;
  std::vector<ReadGradient> reads;
};

// The backward part: from the gradient of the result (kGradient) to those of the score and of captured tables.
struct BackwardCode {
  program::Code code;
  // The forward part once more, for the backward pass: its further results are kept for `code` (kKept), which then need not
  // compute them again.
  program::Code forward;
  int score = -1;  // the result that is the gradient of the score; -1: it is that of the result, or 0 where `severed`
  bool severed = false;
  bool tables_move = false;  // see TangentCodeOf
  std::vector<GivenGradient> given;
  std::vector<ReadGradient> reads;  // of tables read at indices that depend on the pair
};
// wanted: by place, the tables whose gradient is.
BackwardCode BackwardCodeOf(const ForwardCode& forward, const program::PositionForm& form, const std::vector<char>& wanted);
// The same for tangents, which a derivative multiplies the other way round: kGradient is the tangent of the score before, and
// `score` that of the score behind, with what tables that have tangents add, even where nothing arrives. tangents: by place,
// the place of a table's tangent, or -1.
BackwardCode TangentCodeOf(const ForwardCode& forward, const program::PositionForm& form, const std::vector<int>& tangents);

// The second derivative: from the gradient of the result (kGradient) and the tangent of the score (what is kept under place 0)
// to what the latter adds to the tangent of the score's gradient. Without results where that is 0.
program::Code CurvatureCodeOf(const ForwardCode& forward);

}  // namespace heed::position

#endif  // HEED_POSITION_PAIR_PROGRAM_SCORE_CODE_H_
