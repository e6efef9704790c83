// Functions of a score that a caller writes: straight-line programs that run inside the fused kernels, forward and backward.
//
//   using namespace heed::program;
//   const Captured rate(0), width(1);                     // tables, by the place that a call gives them
//   const ScoreProgram kerple(Score() - rate(Head()) * Log1p(width(Head()) * Abs(Query() - Key())));
//   const MaskProgram documents(Captured::Whole(0)(Query()) == Captured::Whole(0)(Key()));
//
// An expression is a number, whole or real, or a truth, for one pair of a query and a key. Arithmetic of whole numbers is whole
// and exact up to 2^53; a truth in arithmetic is 0 or 1; everything else is real. A program is made once, checked when it is
// made, and may serve many calls and threads. What a part of it depends on (the call, the head, the query, the key, their
// offset, the pair) is found out for each call and computed as seldom as that.
//
// -inf as a score hides a pair, as does false from a mask. NaN means what it means elsewhere. Where the gradient that arrives
// at an operation is 0, what it passes on is 0, so that a branch that was not taken cannot turn gradients into NaN.
#ifndef HEED_SCORE_PROGRAM_H_
#define HEED_SCORE_PROGRAM_H_

#include <cstdint>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "heed/view.h"

namespace heed {

namespace program {

class Code;
struct Node;

// What an expression is.
enum class Kind : uint8_t { kTruth, kWhole, kReal };

// A part of a program. Copies share what they stand for. Operators raise InvalidArgument where the kinds of their operands do
// not fit.
class Expression {
 public:
  Expression(double number);   // NOLINT: numbers stand in expressions as they are
  Expression(int64_t number);  // NOLINT
  Expression(int number);      // NOLINT
  Expression(bool truth);      // NOLINT
  explicit Expression(std::shared_ptr<const Node> node);

  Kind kind() const;
  const std::shared_ptr<const Node>& node() const { return node_; }

 private:
  std::shared_ptr<const Node> node_;
};

// The score: scale * q.k with everything that options add to it, soft-capped. Real; not in mask programs.
Expression Score();
// Indices of the pair: batch row (of packed sequences: which one), query head, query and key counted within their own sequence.
// Whole.
Expression Batch();
Expression Head();
Expression Query();
Expression Key();
// Positions of the pair's query and key (heed/call_options.h). Real; whole where the call does not list real ones.
Expression QueryPosition();
Expression KeyPosition();

// A table of at most four dimensions that each call brings along (ProgramTable), by its place among the call's tables. Reading
// takes one whole index a dimension; negative ones count from the end. A read outside of the table is NaN, of a
// table of truths false; pairs that are hidden otherwise do not mind.
class Captured {
 public:
  // Of real numbers, with a gradient.
  explicit Captured(int place) : Captured(place, Kind::kReal) {}
  static Captured Whole(int place) { return {place, Kind::kWhole}; }
  static Captured Truth(int place) { return {place, Kind::kTruth}; }

  template <class... Index>
  Expression operator()(const Index&... indices) const {
    return Read({Expression(indices)...});
  }
  Expression Read(const std::vector<Expression>& indices) const;

  int place() const { return place_; }
  Kind kind() const { return kind_; }

 private:
  Captured(int place, Kind kind) : place_(place), kind_(kind) {}
  int place_;
  Kind kind_;
};

// A row of a table of reals: all but its last dimension are given. Dot is the inner product of two rows of the same width.
struct Row {
  Captured table;
  std::vector<Expression> indices;
};
Expression Dot(const Row& a, const Row& b);

Expression operator+(const Expression& a, const Expression& b);
Expression operator-(const Expression& a, const Expression& b);
Expression operator*(const Expression& a, const Expression& b);
Expression operator/(const Expression& a, const Expression& b);  // real
Expression operator-(const Expression& a);
Expression FloorDivide(const Expression& a, const Expression& b);  // rounded down
Expression Remainder(const Expression& a, const Expression& b);    // has the sign of b
Expression Power(const Expression& a, const Expression& b);        // real
Expression Min(const Expression& a, const Expression& b);          // NaN where either is
Expression Max(const Expression& a, const Expression& b);
Expression Abs(const Expression& a);
Expression Floor(const Expression& a);     // a real without fraction; of a whole number itself
Expression Truncate(const Expression& a);  // towards 0, as a whole number

Expression Exp(const Expression& a);
Expression Exp2(const Expression& a);
Expression Log(const Expression& a);
Expression Log1p(const Expression& a);
Expression Sqrt(const Expression& a);
Expression Reciprocal(const Expression& a);
Expression Tanh(const Expression& a);
Expression Sigmoid(const Expression& a);
Expression Erf(const Expression& a);
Expression Sin(const Expression& a);
Expression Cos(const Expression& a);

Expression operator<(const Expression& a, const Expression& b);
Expression operator<=(const Expression& a, const Expression& b);
Expression operator>(const Expression& a, const Expression& b);
Expression operator>=(const Expression& a, const Expression& b);
Expression operator==(const Expression& a, const Expression& b);
Expression operator!=(const Expression& a, const Expression& b);

// Of truths.
Expression operator&(const Expression& a, const Expression& b);
Expression operator|(const Expression& a, const Expression& b);
Expression operator!(const Expression& a);
// Bit by bit, of whole numbers.
Expression BitAnd(const Expression& a, const Expression& b);
Expression BitOr(const Expression& a, const Expression& b);
Expression BitXor(const Expression& a, const Expression& b);
Expression Select(const Expression& condition, const Expression& a, const Expression& b);  // a where it holds, else b

}  // namespace program

// A program whose result takes the place of the score. Copies share it.
class ScoreProgram {
 public:
  // Throws InvalidArgument for a truth, and for more than 4096 operations.
  explicit ScoreProgram(const program::Expression& result);
  // The program that Text() wrote. Throws InvalidArgument for any other text.
  static ScoreProgram FromText(const std::string& text);
  std::string Text() const;

  // The program that computes `next` of the result of this one. Its tables are the first tables() of this one, and behind them
  // those of `next`. Throws InvalidArgument for more than 4096 operations or 16 tables.
  ScoreProgram Then(const ScoreProgram& next) const;
  // How many tables a call has to bring along.
  int tables() const;

  const program::Code& code() const { return *code_; }

 private:
  explicit ScoreProgram(std::shared_ptr<const program::Code> code) : code_(std::move(code)) {}
  std::shared_ptr<const program::Code> code_;
};

// A program that says whether a query may look at a key.
class MaskProgram {
 public:
  // Throws InvalidArgument for what is no truth, for a result that depends on the score, and for more than 4096 operations.
  explicit MaskProgram(const program::Expression& result);
  static MaskProgram FromText(const std::string& text);
  std::string Text() const;

  const program::Code& code() const { return *code_; }

 private:
  explicit MaskProgram(std::shared_ptr<const program::Code> code) : code_(std::move(code)) {}
  std::shared_ptr<const program::Code> code_;
};

// What a captured table may be; whole numbers within 2^53. Dimensions that a program does not index come first and have the
// extent 1: a table that is read at two indices is [1, 1, n, m].
using ProgramTable = std::variant<View<const float, 4>, View<const double, 4>, View<const int64_t, 4>, View<const bool, 4>>;

// A program with the tables that it captured, in the order of their places. They are read during the call, not kept.
struct ProgramScore {
  ScoreProgram program;
  std::vector<ProgramTable> tables;
};
struct ProgramMask {
  MaskProgram program;
  std::vector<ProgramTable> tables;
};

}  // namespace heed

#endif  // HEED_SCORE_PROGRAM_H_
