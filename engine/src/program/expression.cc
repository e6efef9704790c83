// Expressions, and the programs that are made of them.
#include <algorithm>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/refuse.h"
#include "heed/score_program.h"
#include "program/code.h"

namespace heed {
namespace program {

// An instruction whose operands are still apart.
struct Node {
  Instruction instruction;  // without operands
  std::vector<std::shared_ptr<const Node>> operands;
  int depth = 1;  // nodes from here to the farthest leaf
};

namespace {

using enum Operation;

// Adds a node whose operands are there already.
int AddTo(CodeBuilder& builder, const Node& node, const std::unordered_map<const Node*, int>& places) {
  std::vector<int> operands;
  operands.reserve(node.operands.size());
  for (const auto& operand : node.operands) operands.push_back(places.at(operand.get()));
  return builder.Again(node.instruction, std::move(operands));
}

// The expression of an operation; its kinds are checked here and now, so that an error stands where the mistake does.
Expression Make(Instruction instruction, const std::vector<Expression>& operands) {
  CodeBuilder builder;
  std::vector<int> of_kind;
  for (const Expression& operand : operands) {
    // A leaf of the kind stands for the operand; two of a kind may be one.
    const Operation leaf = operand.kind() == Kind::kWhole ? kQuery : kScore;
    const int number = builder.Leaf(leaf);
    of_kind.push_back(operand.kind() == Kind::kTruth ? builder.Apply(kLess, {number, builder.Leaf(kKey)}) : number);
  }
  if (instruction.operation != kConstant) instruction.kind = builder[builder.Again(instruction, of_kind)].kind;
  auto node = std::make_shared<Node>();
  node->instruction = std::move(instruction);
  for (const Expression& operand : operands) {
    node->operands.push_back(operand.node());
    node->depth = std::max(node->depth, operand.node()->depth + 1);
  }
  // Nodes free each other in turn: a chain of any length would need a stack of any size.
  if (node->depth > CodeBuilder::kMostInstructions)
    core::Refuse("program", "expected at most " + std::to_string(CodeBuilder::kMostInstructions) + " operations");
  return Expression(std::move(node));
}

Expression Make(Operation operation, const std::vector<Expression>& operands) {
  return Make(Instruction{operation, Kind::kReal, {}, 0, {}}, operands);
}

std::shared_ptr<const Node> ConstantNode(double number, Kind kind) {
  return std::make_shared<const Node>(Node{{kConstant, kind, {}, number, {}}, {}});
}

// The program whose result an expression is. Without recursion, because expressions may be as deep as programs are long.
Code CodeOf(const Expression& result) {
  CodeBuilder builder;
  std::unordered_map<const Node*, int> places;
  std::vector<const Node*> open{result.node().get()};
  while (!open.empty()) {
    const Node& node = *open.back();
    const auto missing = [&](const auto& operand) { return !places.contains(operand.get()); };
    const auto next = std::find_if(node.operands.begin(), node.operands.end(), missing);
    if (next != node.operands.end()) {
      open.push_back(next->get());
      continue;
    }
    open.pop_back();
    if (!places.contains(&node)) places[&node] = AddTo(builder, node, places);
  }
  return builder.Finish({places.at(result.node().get())});
}

// The instructions of `second` behind those of `first`, whose result they take for the score.
Code Chained(const Code& first, const Code& second) {
  CodeBuilder builder(first);
  const int score = first.result();
  const int tables = static_cast<int>(first.tables().size());
  std::vector<int> places;
  for (int index = 0; index < second.size(); ++index) {
    Instruction instruction = second[index];
    if (instruction.operation == kScore) {
      places.push_back(score);
      continue;
    }
    for (int* place : {&instruction.reading.place, &instruction.reading.other})
      if (*place >= 0) *place += tables;
    std::vector<int> operands;
    operands.reserve(instruction.operands.size());
    for (int operand : instruction.operands) operands.push_back(places[static_cast<std::size_t>(operand)]);
    places.push_back(builder.Again(instruction, std::move(operands)));
  }
  return builder.Finish({places[static_cast<std::size_t>(second.result())]});
}

std::shared_ptr<const Code> CheckedScore(Code code) {
  if (code[code.result()].kind == Kind::kTruth)
    core::Refuse("score", "expected a program whose result is a number, got a boolean");
  if (code[code.result()].kind == Kind::kReal) return std::make_shared<const Code>(std::move(code));
  // What is whole in a program is real here, as scores are.
  CodeBuilder builder(code);
  return std::make_shared<const Code>(
      builder.Finish({builder.Apply(kMultiply, {code.result(), builder.Constant(1, Kind::kReal)})}));
}

std::shared_ptr<const Code> CheckedMask(Code code) {
  if (code[code.result()].kind != Kind::kTruth)
    core::Refuse("mask", "expected a program whose result is a boolean, got a number");
  for (int index = 0; index < code.size(); ++index)
    if (code[index].operation == kScore) core::Refuse("mask", "expected a program that does not depend on the score");
  return std::make_shared<const Code>(std::move(code));
}

}  // namespace

Expression::Expression(double number) : node_(ConstantNode(number, Kind::kReal)) {}
Expression::Expression(int64_t number) : node_(ConstantNode(static_cast<double>(number), Kind::kWhole)) {
  if (number > (int64_t{1} << 53) || number < -(int64_t{1} << 53))
    core::Refuse("program", "expected whole numbers within 2^53, got " + std::to_string(number));
}
Expression::Expression(int number) : Expression(int64_t{number}) {}
Expression::Expression(bool truth) : node_(ConstantNode(truth, Kind::kTruth)) {}
Expression::Expression(std::shared_ptr<const Node> node) : node_(std::move(node)) {}
Kind Expression::kind() const { return node_->instruction.kind; }

Expression Score() { return Make(kScore, {}); }
Expression Batch() { return Make(kBatch, {}); }
Expression Head() { return Make(kHead, {}); }
Expression Query() { return Make(kQuery, {}); }
Expression Key() { return Make(kKey, {}); }
Expression QueryPosition() { return Make(kQueryPosition, {}); }
Expression KeyPosition() { return Make(kKeyPosition, {}); }

Expression Captured::Read(const std::vector<Expression>& indices) const {
  return Make(Instruction{kRead, kind_, {}, 0, {place_, -1, static_cast<int>(indices.size())}}, indices);
}

Expression Dot(const Row& a, const Row& b) {
  if (a.table.kind() != Kind::kReal || b.table.kind() != Kind::kReal) core::Refuse("program", "dot: expected tables of reals");
  std::vector<Expression> indices = a.indices;
  indices.insert(indices.end(), b.indices.begin(), b.indices.end());
  const Reading reading{a.table.place(), b.table.place(), static_cast<int>(a.indices.size())};
  return Make(Instruction{kDot, Kind::kReal, {}, 0, reading}, indices);
}

Expression operator+(const Expression& a, const Expression& b) { return Make(kAdd, {a, b}); }
Expression operator-(const Expression& a, const Expression& b) { return Make(kSubtract, {a, b}); }
Expression operator*(const Expression& a, const Expression& b) { return Make(kMultiply, {a, b}); }
Expression operator/(const Expression& a, const Expression& b) { return Make(kDivide, {a, b}); }
Expression operator-(const Expression& a) { return Make(kNegate, {a}); }
Expression FloorDivide(const Expression& a, const Expression& b) { return Make(kFloorDivide, {a, b}); }
Expression Remainder(const Expression& a, const Expression& b) { return Make(kRemainder, {a, b}); }
Expression Power(const Expression& a, const Expression& b) { return Make(kPower, {a, b}); }
Expression Min(const Expression& a, const Expression& b) { return Make(kMinimum, {a, b}); }
Expression Max(const Expression& a, const Expression& b) { return Make(kMaximum, {a, b}); }
Expression Abs(const Expression& a) { return Make(kAbsolute, {a}); }
Expression Floor(const Expression& a) { return Make(kFloor, {a}); }
Expression Truncate(const Expression& a) { return Make(kTruncate, {a}); }
Expression Exp(const Expression& a) { return Make(kExp, {a}); }
Expression Exp2(const Expression& a) { return Make(kExp2, {a}); }
Expression Log(const Expression& a) { return Make(kLog, {a}); }
Expression Log1p(const Expression& a) { return Make(kLog1p, {a}); }
Expression Sqrt(const Expression& a) { return Make(kSqrt, {a}); }
Expression Reciprocal(const Expression& a) { return Make(kReciprocal, {a}); }
Expression Tanh(const Expression& a) { return Make(kTanh, {a}); }
Expression Sigmoid(const Expression& a) { return Make(kSigmoid, {a}); }
Expression Erf(const Expression& a) { return Make(kErf, {a}); }
Expression Sin(const Expression& a) { return Make(kSin, {a}); }
Expression Cos(const Expression& a) { return Make(kCos, {a}); }
Expression operator<(const Expression& a, const Expression& b) { return Make(kLess, {a, b}); }
Expression operator<=(const Expression& a, const Expression& b) { return Make(kLessEqual, {a, b}); }
Expression operator>(const Expression& a, const Expression& b) { return Make(kLess, {b, a}); }
Expression operator>=(const Expression& a, const Expression& b) { return Make(kLessEqual, {b, a}); }
Expression operator==(const Expression& a, const Expression& b) { return Make(kEqual, {a, b}); }
Expression operator!=(const Expression& a, const Expression& b) { return Make(kNotEqual, {a, b}); }
Expression operator&(const Expression& a, const Expression& b) { return Make(kAnd, {a, b}); }
Expression operator|(const Expression& a, const Expression& b) { return Make(kOr, {a, b}); }
Expression operator!(const Expression& a) { return Make(kNot, {a}); }
Expression BitAnd(const Expression& a, const Expression& b) { return Make(kBitAnd, {a, b}); }
Expression BitOr(const Expression& a, const Expression& b) { return Make(kBitOr, {a, b}); }
Expression BitXor(const Expression& a, const Expression& b) { return Make(kBitXor, {a, b}); }
Expression Select(const Expression& condition, const Expression& a, const Expression& b) {
  return Make(kSelect, {condition, a, b});
}

}  // namespace program

ScoreProgram::ScoreProgram(const program::Expression& result) : code_(program::CheckedScore(program::CodeOf(result))) {}
ScoreProgram ScoreProgram::FromText(const std::string& text) {
  return ScoreProgram(program::CheckedScore(program::FromText(text)));
}
std::string ScoreProgram::Text() const { return program::ToText(*code_); }
ScoreProgram ScoreProgram::Then(const ScoreProgram& next) const {
  return ScoreProgram(program::CheckedScore(program::Chained(*code_, *next.code_)));
}
int ScoreProgram::tables() const { return static_cast<int>(code_->tables().size()); }

MaskProgram::MaskProgram(const program::Expression& result) : code_(program::CheckedMask(program::CodeOf(result))) {}
MaskProgram MaskProgram::FromText(const std::string& text) {
  return MaskProgram(program::CheckedMask(program::FromText(text)));
}
std::string MaskProgram::Text() const { return program::ToText(*code_); }

}  // namespace heed
