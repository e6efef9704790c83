#include "position/pair_program/reference.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numbers>
#include <optional>
#include <sstream>
#include <string>
#include <utility>

#include "reference/case_table.h"
#include "reference/cost.h"
#include "reference/random_cases.h"
#include "reference/random_draws.h"
#include "reference/random_tables.h"

namespace heed::reference {
namespace {

using namespace program;  // expressions

enum Name {
  kScore,
  kBatch,
  kHead,
  kQuery,
  kKey,
  kQueryPosition,
  kKeyPosition,
  kConstant,
  kRead,
  kDot,
  kAdd,
  kSubtract,
  kMultiply,
  kDivide,
  kFloorDivide,
  kRemainder,
  kPower,
  kMinimum,
  kMaximum,
  kNegate,
  kAbsolute,
  kFloor,
  kTruncate,
  kToBFloat16,
  kToFloat16,
  kExp,
  kExp2,
  kLog,
  kLog1p,
  kSqrt,
  kReciprocal,
  kTanh,
  kSigmoid,
  kErf,
  kSin,
  kCos,
  kLess,
  kLessEqual,
  kEqual,
  kNotEqual,
  kAnd,
  kOr,
  kNot,
  kBitAnd,
  kBitOr,
  kBitXor,
  kSelect,
};
constexpr const char* kNames[] = {
    "score",      "batch",   "head",    "query",    "key",      "query_position", "key_position", "constant",
    "read",       "dot",     "add",     "subtract", "multiply", "divide",         "floor_divide", "remainder",
    "power",      "minimum", "maximum", "negate",   "absolute", "floor",          "truncate",     "to_bfloat16",
    "to_float16", "exp",     "exp2",    "log",      "log1p",    "sqrt",           "reciprocal",   "tanh",
    "sigmoid",    "erf",     "sin",     "cos",      "less",     "less_equal",     "equal",        "not_equal",
    "and",        "or",      "not",     "bit_and",  "bit_or",   "bit_xor",        "select",
};

Name NameOf(const std::string& word) {
  const auto found = std::find(std::begin(kNames), std::end(kNames), word);
  if (found == std::end(kNames)) throw std::logic_error("no operation of the name " + word);
  return static_cast<Name>(found - std::begin(kNames));
}

// One instruction of a program's text.
struct Line {
  Name name;
  double number = 0;
  int place = -1, other = -1, of_first = 0;
  std::vector<std::size_t> operands;
};

std::vector<Line> Parse(const std::string& text) {
  std::vector<Line> lines;
  std::istringstream instructions(text);
  for (std::string one; std::getline(instructions, one, ';');) {
    std::istringstream words(one);
    Line line{};
    std::string name, kind;
    words >> name;
    line.name = NameOf(name);
    if (line.name == kConstant) {
      std::string number;
      words >> kind >> number;
      line.number = std::stod(number);
    }
    if (line.name == kRead) words >> kind >> line.place;
    if (line.name == kDot) words >> line.place >> line.other >> line.of_first;
    for (std::size_t operand; words >> operand;) line.operands.push_back(operand);
    lines.push_back(std::move(line));
  }
  return lines;
}

// A table as numbers.
struct Numbers4 {
  const ProgramTable& table;

  std::array<int64_t, 4> extent() const {
    return std::visit([](const auto& view) { return view.extent; }, table);
  }
  // The place of the entry that `count` indices lead to, in a contiguous copy; -1 outside. Rows: the last dimension is 0.
  int64_t Place(const double* indices, int count, int dimensions) const {
    int64_t place = 0;
    const auto all = extent();
    for (int r = 0; r < 4; ++r) {
      const int x = r - (4 - dimensions);
      const int64_t n = all[static_cast<size_t>(r)];
      double index = x >= 0 && x < count ? indices[x] : 0;
      if (index < 0) index += static_cast<double>(n);
      if (!(index >= 0 && index < static_cast<double>(n))) return -1;
      place = place * n + static_cast<int64_t>(index);
    }
    return place;
  }
  double At(int64_t place) const {
    const auto n = extent();
    const int64_t j = place % n[3], i = place / n[3] % n[2], h = place / n[3] / n[2] % n[1], b = place / n[3] / n[2] / n[1];
    return std::visit([&](const auto& view) { return static_cast<double>(view(b, h, i, j)); }, table);
  }
};

// A value, its error in roundings, and its gradient.
struct Value {
  double value = 0, error = 0, gradient = 0, noise = 0;
};

class Machine {
 public:
  Machine(const std::vector<Line>& lines, const std::vector<ProgramTable>& tables) : lines_(lines), tables_(tables) {}

  const Value& Run(const Formulas& f, const Pair& pair, const Sum& score) {
    values_.assign(lines_.size(), {});
    for (std::size_t n = 0; n < lines_.size(); ++n) {
      Value& y = values_[n];
      y.value = Compute(n, f, pair, score, y.error);
    }
    return values_.back();
  }

  // After Run: gradients of all values; those of tables go to `d`.
  GradientTerm Backward(const GradientTerm& result, const GradientSums& d, const char* (*name_of)(std::size_t)) {
    values_.back().gradient = result.value;
    values_.back().noise = result.noise;
    GradientTerm of_score{0, 0};
    for (std::size_t n = lines_.size(); n-- > 0;) {
      const Value y = values_[n];
      if (y.gradient == 0 && y.noise == 0) continue;
      if (lines_[n].name == kScore) of_score = {y.gradient, y.noise};
      PassOn(n, d, name_of);
    }
    return of_score;
  }

 private:
  double x(const Line& line, std::size_t operand) const { return values_[line.operands[operand]].value; }

  double Compute(std::size_t n, const Formulas& f, const Pair& pair, const Sum& score, double& error) {
    const Line& line = lines_[n];
    const Name name = line.name;
    if (name == kScore) {
      error = std::max(std::abs(score.value), score.magnitude);
      return score.value;
    }
    if (name == kBatch) return static_cast<double>(pair.b);
    if (name == kHead) return static_cast<double>(pair.h);
    if (name == kQuery) return static_cast<double>(pair.i);
    if (name == kKey) return static_cast<double>(pair.j);
    if (name == kQueryPosition) return f.QueryPosition(pair);
    if (name == kKeyPosition) return f.KeyPosition(pair);
    if (name == kConstant) return line.number;
    const double value = name == kRead || name == kDot ? ReadOf(line) : Function(line);
    // Each operand's error by the slope, and a rounding of its own.
    error = std::isfinite(value) ? std::abs(value) : 0;
    for (std::size_t o = 0; o < line.operands.size() && name != kRead && name != kDot; ++o) {
      const double slope = SlopeOf(line, o, value), own = values_[line.operands[o]].error;
      if (own != 0 && std::isfinite(slope)) error += std::abs(slope) * own;
    }
    return value;
  }

  std::pair<int64_t, int64_t> PlacesOf(const Line& line) const {
    std::array<double, 8> indices{};
    for (std::size_t o = 0; o < line.operands.size(); ++o) indices[o] = x(line, o);
    const int count = static_cast<int>(line.operands.size());
    const Numbers4 first{tables_[static_cast<size_t>(line.place)]};
    if (line.name == kRead) return {first.Place(indices.data(), count, count), -1};
    const Numbers4 second{tables_[static_cast<size_t>(line.other)]};
    return {first.Place(indices.data(), line.of_first, line.of_first + 1),
            second.Place(indices.data() + line.of_first, count - line.of_first, count - line.of_first + 1)};
  }

  double ReadOf(const Line& line) const {
    const auto [a, b] = PlacesOf(line);
    const Numbers4 first{tables_[static_cast<size_t>(line.place)]};
    if (line.name == kRead) return a < 0 ? std::nan("") : first.At(a);
    if (a < 0 || b < 0) return std::nan("");
    const Numbers4 second{tables_[static_cast<size_t>(line.other)]};
    double sum = 0;
    for (int64_t c = 0; c < first.extent()[3]; ++c) sum += first.At(a + c) * second.At(b + c);
    return sum;
  }

  double Function(const Line& line) const {
    const Name name = line.name;
    const double a = x(line, 0), b = line.operands.size() > 1 ? x(line, 1) : 0;
    switch (name) {
      case kAdd:
        return a + b;
      case kSubtract:
        return a - b;
      case kMultiply:
        return a * b;
      case kDivide:
        return a / b;
      case kFloorDivide:
        return std::floor(a / b);
      case kRemainder:
        return a - b * std::floor(a / b);
      case kPower:
        return std::pow(a, b);
      case kMinimum:
        return std::min(a, b);
      case kMaximum:
        return std::max(a, b);
      case kNegate:
        return -a;
      case kAbsolute:
        return std::abs(a);
      case kFloor:
      case kTruncate:
        return name == kFloor ? std::floor(a) : std::trunc(a);
      case kToBFloat16:
        return ToFloat(ToBFloat16(static_cast<float>(a)));
      case kToFloat16:
        return ToFloat(ToFloat16(static_cast<float>(a)));
      case kExp:
        return std::exp(a);
      case kExp2:
        return std::exp2(a);
      case kLog:
        return std::log(a);
      case kLog1p:
        return std::log1p(a);
      case kSqrt:
        return std::sqrt(a);
      case kReciprocal:
        return 1 / a;
      case kTanh:
        return std::tanh(a);
      case kSigmoid:
        return 1 / (1 + std::exp(-a));
      case kErf:
        return std::erf(a);
      case kSin:
        return std::sin(a);
      case kCos:
        return std::cos(a);
      case kLess:
        return a < b;
      case kLessEqual:
        return a <= b;
      case kEqual:
        return a == b;
      case kNotEqual:
        return a != b;
      case kAnd:
        return a != 0 && b != 0;
      case kOr:
        return a != 0 || b != 0;
      case kNot:
        return a == 0;
      case kBitAnd:
        return static_cast<double>(static_cast<int64_t>(a) & static_cast<int64_t>(b));
      case kBitOr:
        return static_cast<double>(static_cast<int64_t>(a) | static_cast<int64_t>(b));
      case kBitXor:
        return static_cast<double>(static_cast<int64_t>(a) ^ static_cast<int64_t>(b));
      case kSelect:
        return a != 0 ? b : x(line, 2);
      default:
        return std::nan("");
    }
  }

  // The derivative by an operand.
  double SlopeOf(const Line& line, std::size_t operand, double y) const {
    const Name name = line.name;
    const double a = x(line, 0), b = line.operands.size() > 1 ? x(line, 1) : 0;
    const bool first = operand == 0;
    if (name == kAdd) return 1;
    if (name == kSubtract) return first ? 1 : -1;
    if (name == kMultiply) return first ? b : a;
    if (name == kDivide) return first ? 1 / b : -a / (b * b);
    if (name == kRemainder) return first ? 1 : -std::floor(a / b);
    if (name == kPower) {
      if (first) return b == 0 ? 0 : b * std::pow(a, b - 1);
      return a == 0 && b >= 0 ? 0 : y * std::log(a);
    }
    if (name == kMinimum || name == kMaximum) {
      if (a == b) return 0.5;
      return first == ((name == kMinimum) == (a < b)) ? 1 : 0;
    }
    if (name == kNegate) return -1;
    if (name == kToBFloat16 || name == kToFloat16) return 1;
    if (name == kAbsolute) return a > 0 ? 1 : a < 0 ? -1 : 0;
    if (name == kExp) return y;
    if (name == kExp2) return y * std::numbers::ln2;
    if (name == kLog) return 1 / a;
    if (name == kLog1p) return 1 / (1 + a);
    if (name == kSqrt) return 0.5 / y;
    if (name == kReciprocal) return -y * y;
    if (name == kTanh) return 1 - y * y;
    if (name == kSigmoid) return y * (1 - y);
    if (name == kErf) return 2 * std::numbers::inv_sqrtpi * std::exp(-a * a);
    if (name == kSin) return std::cos(a);
    if (name == kCos) return -std::sin(a);
    if (name == kSelect) return operand == 0 ? 0 : (a != 0) == (operand == 1) ? 1 : 0;
    return 0;
  }

  // By how many roundings the slopes of an operation are wrong that stands at its kink: rounding may take its operands to the
  // other side, where the slopes differ by `jump`. That is a curvature of the jump by the distance to the kink.
  double KinkOf(const Line& line) const {
    constexpr double kNear = 1e-5, kLeast = 1e-30;  // several roundings of a float; in place of no distance at all
    const bool absolute = line.name == kAbsolute;
    if (!absolute && line.name != kMinimum && line.name != kMaximum) return 0;
    if (!absolute && line.operands[0] == line.operands[1]) return 0;
    const double distance = std::abs(absolute ? x(line, 0) : x(line, 0) - x(line, 1)), jump = absolute ? 2 : 1;
    double errors = 0;
    for (std::size_t operand : line.operands) errors += values_[operand].error;
    return distance < kNear * errors ? errors * jump / std::max(distance, kLeast) : 0;
  }

  void PassOn(std::size_t n, const GradientSums& d, const char* (*name_of)(std::size_t)) {
    const Line& line = lines_[n];
    const Value y = values_[n];
    const GradientTerm arriving{y.gradient, y.noise};
    if (line.name == kRead || line.name == kDot) return AddToTables(line, arriving, d, name_of);
    const double kink = KinkOf(line);
    double errors = kink;
    for (std::size_t operand : line.operands) errors += values_[operand].error;
    for (std::size_t o = 0; o < line.operands.size(); ++o) {
      const double slope = SlopeOf(line, o, y.value);
      if ((slope == 0 && kink == 0) || !std::isfinite(slope)) continue;
      Value& operand = values_[line.operands[o]];
      operand.gradient += arriving.value * slope;
      // The slope is wrong by what its operands are wrong by: curvatures are about 1.
      operand.noise += arriving.noise * std::abs(slope) + std::abs(arriving.value) * errors;
    }
  }

  void AddToTables(const Line& line, const GradientTerm& arriving, const GradientSums& d, const char* (*name_of)(std::size_t)) {
    const auto of = [&](int place) { return static_cast<size_t>(place); };
    if (!std::holds_alternative<View<const float, 4>>(tables_[of(line.place)]) &&
        !std::holds_alternative<View<const double, 4>>(tables_[of(line.place)]))
      return;
    const auto [a, b] = PlacesOf(line);
    if (a < 0 || (line.name == kDot && b < 0)) return;
    if (line.name == kRead) return d.Of(name_of(of(line.place))).Add(a, arriving);
    const Numbers4 first{tables_[of(line.place)]}, second{tables_[of(line.other)]};
    for (int64_t c = 0; c < first.extent()[3]; ++c) {
      d.Of(name_of(of(line.place))).Add(a + c, arriving.Times(second.At(b + c)));
      d.Of(name_of(of(line.other))).Add(b + c, arriving.Times(first.At(a + c)));
    }
  }

  const std::vector<Line>& lines_;
  const std::vector<ProgramTable>& tables_;
  std::vector<Value> values_;
};

// The lines of a program, taken apart once. Holding the program keeps its address its own.
template <class Program>
const std::vector<Line>& LinesOf(const Program& program) {
  thread_local std::optional<Program> last;
  thread_local std::vector<Line> lines;
  if (!last || &last->code() != &program.code()) {
    last.emplace(program);
    lines = Parse(program.Text());
  }
  return lines;
}

Machine ScoreMachine(const Formulas& f) {
  const ProgramScore& score = *f.attention().score;
  return {LinesOf(score.program), score.tables};
}

}  // namespace

const char* PairProgramReference::GradientName(std::size_t place) {
  static const std::array<const char*, 8> kNames{"dScoreTable0", "dScoreTable1", "dScoreTable2", "dScoreTable3",
                                                 "dScoreTable4", "dScoreTable5", "dScoreTable6", "dScoreTable7"};
  return kNames.at(place);
}

std::optional<Table<4>> PairProgramReference::AsReal(const ProgramTable& table) {
  if (const auto* narrow = std::get_if<View<const float, 4>>(&table)) return Table<4>(*narrow);
  if (const auto* wide = std::get_if<View<const double, 4>>(&table)) return Table<4>(*wide);
  return std::nullopt;
}

bool PairProgramReference::Hides(const Formulas& f, const Pair& pair) {
  if (!f.attention().mask_program) return false;
  const ProgramMask& rule = *f.attention().mask_program;
  return Machine(LinesOf(rule.program), rule.tables).Run(f, pair, {}).value == 0;
}

void PairProgramReference::MakeScore(const Formulas& f, const Pair& pair, Sum& score) {
  if (!f.attention().score) return;
  Machine machine = ScoreMachine(f);
  const Value& made = machine.Run(f, pair, score);
  score = {made.value, std::max(std::isfinite(made.value) ? std::abs(made.value) : 0.0, made.error)};
}

GradientTerm PairProgramReference::PassBack(const Formulas& f, const Pair& pair, const Sum& before, const GradientTerm& score,
                                            const GradientSums& d) {
  if (!f.attention().score) return score;
  Machine machine = ScoreMachine(f);
  machine.Run(f, pair, before);
  return machine.Backward(score, d, &GradientName);
}

}  // namespace heed::reference
