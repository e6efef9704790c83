#include "position/pair_program/reference.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
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

// What is no function of operands: what a pair has, constants, and readings of tables.
enum Leaf { kScore, kBatch, kHead, kQuery, kKey, kQueryPosition, kKeyPosition, kConstant, kRead, kDot, kNone };
constexpr const char* kLeaves[] = {"score",          "batch",        "head",     "query", "key",
                                   "query_position", "key_position", "constant", "read",  "dot"};

// A function of its operands a, b and c, and its derivatives by the first two from these and its result y, null where they are
// 0. jump: by how much these jump where a and b are equal or, of one operand, where it is 0.
struct Function {
  const char* name;
  double (*value)(double a, double b, double c);
  double (*by_first)(double a, double b, double y) = nullptr;
  double (*by_second)(double a, double b, double y) = nullptr;
  double jump = 0;
};
double Plus(double, double, double) { return 1; }
double Minus(double, double, double) { return -1; }
double Sign(double a, double, double) { return a > 0 ? 1 : a < 0 ? -1 : 0; }
// Of one of two that are compared.
double Share(bool equal, bool taken) { return equal ? 0.5 : taken ? 1 : 0; }
template <class Operation>
double BitByBit(double a, double b) {
  return static_cast<double>(Operation()(static_cast<int64_t>(a), static_cast<int64_t>(b)));
}

using D = double;
constexpr Function kFunctions[] = {
    {"add", [](D a, D b, D) { return a + b; }, Plus, Plus},
    {"subtract", [](D a, D b, D) { return a - b; }, Plus, Minus},
    {"multiply", [](D a, D b, D) { return a * b; }, [](D, D b, D) { return b; }, [](D a, D, D) { return a; }},
    {"divide", [](D a, D b, D) { return a / b; }, [](D, D b, D) { return 1 / b; }, [](D a, D b, D) { return -a / (b * b); }},
    {"floor_divide", [](D a, D b, D) { return std::floor(a / b); }},
    {"remainder", [](D a, D b, D) { return a - b * std::floor(a / b); }, Plus, [](D a, D b, D) { return -std::floor(a / b); }},
    {"power", [](D a, D b, D) { return std::pow(a, b); }, [](D a, D b, D) { return b == 0 ? 0 : b * std::pow(a, b - 1); },
     [](D a, D b, D y) { return a == 0 && b >= 0 ? 0 : y * std::log(a); }},
    {"minimum", [](D a, D b, D) { return std::min(a, b); }, [](D a, D b, D) { return Share(a == b, a < b); },
     [](D a, D b, D) { return Share(a == b, !(a < b)); }, 1},
    {"maximum", [](D a, D b, D) { return std::max(a, b); }, [](D a, D b, D) { return Share(a == b, !(a < b)); },
     [](D a, D b, D) { return Share(a == b, a < b); }, 1},
    {"negate", [](D a, D, D) { return -a; }, Minus},
    {"absolute", [](D a, D, D) { return std::abs(a); }, Sign, nullptr, 2},
    {"floor", [](D a, D, D) { return std::floor(a); }},
    {"truncate", [](D a, D, D) { return std::trunc(a); }},
    {"to_bfloat16", [](D a, D, D) { return D{ToFloat(ToBFloat16(static_cast<float>(a)))}; }, Plus},
    {"to_float16", [](D a, D, D) { return D{ToFloat(ToFloat16(static_cast<float>(a)))}; }, Plus},
    {"exp", [](D a, D, D) { return std::exp(a); }, [](D, D, D y) { return y; }},
    {"exp2", [](D a, D, D) { return std::exp2(a); }, [](D, D, D y) { return y * std::numbers::ln2; }},
    {"log", [](D a, D, D) { return std::log(a); }, [](D a, D, D) { return 1 / a; }},
    {"log1p", [](D a, D, D) { return std::log1p(a); }, [](D a, D, D) { return 1 / (1 + a); }},
    {"sqrt", [](D a, D, D) { return std::sqrt(a); }, [](D, D, D y) { return 0.5 / y; }},
    {"reciprocal", [](D a, D, D) { return 1 / a; }, [](D, D, D y) { return -y * y; }},
    {"tanh", [](D a, D, D) { return std::tanh(a); }, [](D, D, D y) { return 1 - y * y; }},
    {"sigmoid", [](D a, D, D) { return 1 / (1 + std::exp(-a)); }, [](D, D, D y) { return y * (1 - y); }},
    {"erf", [](D a, D, D) { return std::erf(a); }, [](D a, D, D) { return 2 * std::numbers::inv_sqrtpi * std::exp(-a * a); }},
    {"sin", [](D a, D, D) { return std::sin(a); }, [](D a, D, D) { return std::cos(a); }},
    {"cos", [](D a, D, D) { return std::cos(a); }, [](D a, D, D) { return -std::sin(a); }},
    {"less", [](D a, D b, D) { return D(a < b); }},
    {"less_equal", [](D a, D b, D) { return D(a <= b); }},
    {"equal", [](D a, D b, D) { return D(a == b); }},
    {"not_equal", [](D a, D b, D) { return D(a != b); }},
    {"and", [](D a, D b, D) { return D(a != 0 && b != 0); }},
    {"or", [](D a, D b, D) { return D(a != 0 || b != 0); }},
    {"not", [](D a, D, D) { return D(a == 0); }},
    {"bit_and", [](D a, D b, D) { return BitByBit<std::bit_and<>>(a, b); }},
    {"bit_or", [](D a, D b, D) { return BitByBit<std::bit_or<>>(a, b); }},
    {"bit_xor", [](D a, D b, D) { return BitByBit<std::bit_xor<>>(a, b); }},
    {"select", [](D a, D b, D c) { return a != 0 ? b : c; }, nullptr, [](D a, D, D) { return a != 0 ? 1.0 : 0.0; }},
};

// One instruction of a program's text.
struct Line {
  Leaf leaf = kNone;
  const Function* function = nullptr;  // of operands
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
    line.leaf = static_cast<Leaf>(std::ranges::find(kLeaves, name) - std::begin(kLeaves));
    line.function = std::ranges::find(kFunctions, name, &Function::name);
    if (line.leaf == kNone && line.function == std::end(kFunctions)) throw std::logic_error("no operation of the name " + name);
    if (line.leaf == kConstant) {
      std::string number;
      words >> kind >> number;
      line.number = std::stod(number);
    }
    if (line.leaf == kRead) words >> kind >> line.place;
    if (line.leaf == kDot) words >> line.place >> line.other >> line.of_first;
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
      if (lines_[n].leaf == kScore) of_score = {y.gradient, y.noise};
      PassOn(n, d, name_of);
    }
    return of_score;
  }

 private:
  // 0 where there are fewer.
  double x(const Line& line, std::size_t operand) const {
    return operand < line.operands.size() ? values_[line.operands[operand]].value : 0;
  }

  double Compute(std::size_t n, const Formulas& f, const Pair& pair, const Sum& score, double& error) {
    const Line& line = lines_[n];
    switch (line.leaf) {
      case kScore:
        error = std::max(std::abs(score.value), score.magnitude);
        return score.value;
      case kBatch:
        return static_cast<double>(pair.b);
      case kHead:
        return static_cast<double>(pair.h);
      case kQuery:
        return static_cast<double>(pair.i);
      case kKey:
        return static_cast<double>(pair.j);
      case kQueryPosition:
        return f.QueryPosition(pair);
      case kKeyPosition:
        return f.KeyPosition(pair);
      case kConstant:
        return line.number;
      default:
        break;
    }
    const double value = line.leaf == kNone ? line.function->value(x(line, 0), x(line, 1), x(line, 2)) : ReadOf(line);
    // Each operand's error by the slope, and a rounding of its own.
    error = std::isfinite(value) ? std::abs(value) : 0;
    for (std::size_t o = 0; o < line.operands.size() && line.leaf == kNone; ++o) {
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
    if (line.leaf == kRead) return {first.Place(indices.data(), count, count), -1};
    const Numbers4 second{tables_[static_cast<size_t>(line.other)]};
    return {first.Place(indices.data(), line.of_first, line.of_first + 1),
            second.Place(indices.data() + line.of_first, count - line.of_first, count - line.of_first + 1)};
  }

  double ReadOf(const Line& line) const {
    const auto [a, b] = PlacesOf(line);
    const Numbers4 first{tables_[static_cast<size_t>(line.place)]};
    if (line.leaf == kRead) return a < 0 ? std::nan("") : first.At(a);
    if (a < 0 || b < 0) return std::nan("");
    const Numbers4 second{tables_[static_cast<size_t>(line.other)]};
    double sum = 0;
    for (int64_t c = 0; c < first.extent()[3]; ++c) sum += first.At(a + c) * second.At(b + c);
    return sum;
  }

  // The derivative by an operand. Of three, the third is what is selected where the first is 0.
  double SlopeOf(const Line& line, std::size_t operand, double y) const {
    if (operand == 2) return x(line, 0) != 0 ? 0 : 1;
    const auto slope = operand == 0 ? line.function->by_first : line.function->by_second;
    return slope ? slope(x(line, 0), x(line, 1), y) : 0;
  }

  // By how many roundings the slopes of an operation are wrong that stands at its kink: rounding may take its operands to the
  // other side, where the slopes differ by `jump`. That is a curvature of the jump by the distance to the kink.
  double KinkOf(const Line& line) const {
    constexpr double kNear = 1e-5, kLeast = 1e-30;  // several roundings of a float; in place of no distance at all
    const double jump = line.function->jump, distance = std::abs(x(line, 0) - x(line, 1));
    if (jump == 0 || (line.operands.size() > 1 && line.operands[0] == line.operands[1])) return 0;
    double errors = 0;
    for (std::size_t operand : line.operands) errors += values_[operand].error;
    return distance < kNear * errors ? errors * jump / std::max(distance, kLeast) : 0;
  }

  void PassOn(std::size_t n, const GradientSums& d, const char* (*name_of)(std::size_t)) {
    const Line& line = lines_[n];
    const Value y = values_[n];
    const GradientTerm arriving{y.gradient, y.noise};
    if (line.leaf != kNone) return AddToTables(line, arriving, d, name_of);
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
    if (line.leaf != kRead && line.leaf != kDot) return;
    const auto of = [&](int place) { return static_cast<size_t>(place); };
    if (!std::holds_alternative<View<const float, 4>>(tables_[of(line.place)]) &&
        !std::holds_alternative<View<const double, 4>>(tables_[of(line.place)]))
      return;
    const auto [a, b] = PlacesOf(line);
    if (a < 0 || (line.leaf == kDot && b < 0)) return;
    if (line.leaf == kRead) return d.Of(name_of(of(line.place))).Add(a, arriving);
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
