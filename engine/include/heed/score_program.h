// Your own functions of a score, as straight-line programs inside the fused kernels, forward and backward.
//
//   using namespace heed::program;
//   const Captured rate(0), width(1);                     // tables 0 and 1 of the call
//   const ScoreProgram kerple(Score() - rate(Head()) * Log1p(width(Head()) * Abs(Query() - Key())));
//   const MaskProgram documents(Captured::Whole(0)(Query()) == Captured::Whole(0)(Key()));
//
// An expression is a whole number, a real number or a boolean for one pair of a query and a key. Arithmetic of whole numbers is
// whole, and exact up to 2^53; a boolean in arithmetic is 0 or 1; all else is real. A program is checked when it is made, and
// may serve many calls and threads. A call computes a part of it once for each call, head, query, key, offset or pair,
// whichever the part depends on.
//
// A score of -inf or a mask of false hides a pair. NaN propagates. An operation whose incoming gradient is 0 passes on 0, so a
// branch that Select did not take cannot turn gradients into NaN.
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

// The type of an expression: a boolean, a whole number or a real number.
enum class Kind : uint8_t { kTruth, kWhole, kReal };

// A part of a program. Copies share their nodes. Operators throw InvalidArgument for operands of other kinds.
class Expression {
 public:
  Expression(double number);   // NOLINT: numbers convert implicitly in expressions
  Expression(int64_t number);  // NOLINT
  Expression(int number);      // NOLINT
  Expression(bool truth);      // NOLINT
  explicit Expression(std::shared_ptr<const Node> node);

  Kind kind() const;
  const std::shared_ptr<const Node>& node() const { return node_; }

 private:
  std::shared_ptr<const Node> node_;
};

// The score: scale * q.k plus all terms of options, soft-capped. Real; not in mask programs.
Expression Score();
// Indices of the pair: batch row or packed sequence, query head, query and key within their sequence. Whole.
Expression Batch();
Expression Head();
Expression Query();
Expression Key();
// Positions of the pair's query and key (heed/call_options.h). Real; whole unless the call lists real positions.
Expression QueryPosition();
Expression KeyPosition();

// A table of at most four dimensions (ProgramTable), by its place among the call's tables. A read takes one whole index a
// dimension; negative ones count from the end. Reads outside the table give NaN, of boolean tables false; they have no effect
// on pairs hidden by other masks.
class Captured {
 public:
  // A table of real numbers, with a gradient.
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

// A row of a real table: indices of all dimensions but the last. Dot is the inner product of two rows of the same width.
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

// For booleans.
Expression operator&(const Expression& a, const Expression& b);
Expression operator|(const Expression& a, const Expression& b);
Expression operator!(const Expression& a);
// Bit by bit, for whole numbers.
Expression BitAnd(const Expression& a, const Expression& b);
Expression BitOr(const Expression& a, const Expression& b);
Expression BitXor(const Expression& a, const Expression& b);
Expression Select(const Expression& condition, const Expression& a, const Expression& b);  // condition ? a : b

}  // namespace program

// A program whose result replaces the score. Copies share it.
class ScoreProgram {
 public:
  // Throws InvalidArgument for a boolean result, and for more than 4096 operations.
  explicit ScoreProgram(const program::Expression& result);
  // Reads the text of Text(). Throws InvalidArgument for any other text.
  static ScoreProgram FromText(const std::string& text);
  std::string Text() const;

  // The program that applies `next` to the result of this one. Its tables are the tables() of this one, then those of `next`.
  // Throws InvalidArgument for more than 4096 operations or 16 tables.
  ScoreProgram Then(const ScoreProgram& next) const;
  // The number of tables that a call must give.
  int tables() const;

  const program::Code& code() const { return *code_; }

 private:
  explicit ScoreProgram(std::shared_ptr<const program::Code> code) : code_(std::move(code)) {}
  std::shared_ptr<const program::Code> code_;
};

// A program that decides whether a query may attend to a key.
class MaskProgram {
 public:
  // Throws InvalidArgument for a result that is no boolean or depends on the score, and for more than 4096 operations.
  explicit MaskProgram(const program::Expression& result);
  static MaskProgram FromText(const std::string& text);
  std::string Text() const;

  const program::Code& code() const { return *code_; }

 private:
  explicit MaskProgram(std::shared_ptr<const program::Code> code) : code_(std::move(code)) {}
  std::shared_ptr<const program::Code> code_;
};

// A captured table; whole numbers lie within -2^53..2^53. Leading dimensions without an index have extent 1: a table read at
// two indices is [1, 1, n, m].
using ProgramTable = std::variant<View<const float, 4>, View<const double, 4>, View<const int64_t, 4>, View<const bool, 4>>;

// A program with its captured tables, in the order of their places. A call reads them and keeps no reference.
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
