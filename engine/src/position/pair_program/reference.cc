#include "position/pair_program/reference.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <numbers>
#include <optional>
#include <span>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <variant>

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

using Index4 = std::array<int64_t, 4>;

Index4 ExtentOf(const ProgramTable& table) {
  return std::visit([](const auto& view) { return view.extent; }, table);
}

// The entry that indices lead to, if there is one. Indices are the last of `dimensions`; what they leave out, the numbers of a
// row, is 0.
std::optional<Index4> PlaceIn(const ProgramTable& table, std::span<const double> indices, std::size_t dimensions) {
  Index4 place{};
  for (std::size_t r = 0; r < 4; ++r) {
    const std::size_t x = r + dimensions - 4;
    const auto n = static_cast<double>(ExtentOf(table)[r]);
    double index = x < indices.size() ? indices[x] : 0;
    if (index < 0) index += n;
    if (!(index >= 0 && index < n)) return std::nullopt;
    place[r] = static_cast<int64_t>(index);
  }
  return place;
}

// Computes a program. The magnitude of a number is its error in roundings.
class Machine {
 public:
  Machine(const std::vector<Line>& lines, const std::vector<ProgramTable>& tables) : lines_(lines), tables_(tables) {}

  const Number& Run(const Formulas& f, const Pair& pair, const Number& score) {
    values_.reserve(lines_.size());
    for (const Line& line : lines_) values_.push_back(Compute(line, f, pair, score));
    return values_.back();
  }

 private:
  // 0 where there are fewer.
  double x(const Line& line, std::size_t operand) const {
    return operand < line.operands.size() ? values_[line.operands[operand]].value : 0;
  }

  Number Compute(const Line& line, const Formulas& f, const Pair& pair, const Number& score) const {
    if (line.leaf == kScore) {
      Number own = score;
      own.magnitude = std::max(std::abs(own.value), own.magnitude);
      return own;
    }
    if (line.leaf <= kConstant) {
      const double of_pair[] = {D(pair.b),           D(pair.h),  D(pair.i), D(pair.j), f.QueryPosition(pair),
                                f.KeyPosition(pair), line.number};
      return Number(Measured(of_pair[line.leaf - kBatch], 0, 0, 0));
    }
    Number value = line.leaf == kNone ? ResultOf(line) : ReadOf(line, f);
    if (!std::isfinite(value.value)) value.magnitude = 0;
    return value;
  }

  Number ReadOf(const Line& line, const Formulas& f) const {
    std::vector<double> all;
    for (std::size_t o = 0; o < line.operands.size(); ++o) all.push_back(x(line, o));
    const std::span<const double> indices(all);
    const auto table = [&](int number) -> const ProgramTable& { return tables_[static_cast<std::size_t>(number)]; };
    const auto entry = [&](int number, const Index4& place, int64_t c) {
      return f.Entry(table(number), place[0], place[1], place[2], place[3] + c);
    };
    const std::size_t count = line.leaf == kRead ? all.size() : static_cast<std::size_t>(line.of_first);
    const auto first = PlaceIn(table(line.place), indices.first(count), line.leaf == kRead ? count : count + 1);
    if (!first) return std::nan("");
    if (line.leaf == kRead) return entry(line.place, *first, 0);
    const auto second = PlaceIn(table(line.other), indices.subspan(count), all.size() - count + 1);
    if (!second) return std::nan("");
    Number sum;
    for (int64_t c = 0; c < ExtentOf(table(line.place))[3]; ++c)
      sum.AddProduct(entry(line.place, *first, c), entry(line.other, *second, c));
    sum.magnitude = std::abs(sum.value);
    return sum;
  }

  // Of a function of operands: each operand's error by the slope, and a rounding of its own.
  Number ResultOf(const Line& line) const {
    Number y;
    y.value = line.function->value(x(line, 0), x(line, 1), x(line, 2));
    y.magnitude = std::abs(y.value);
    double errors = 0;
    for (std::size_t operand : line.operands) errors += values_[operand].magnitude;
    const double kink = KinkOf(line, errors);
    for (std::size_t o = 0; o < line.operands.size(); ++o) {
      const Number& operand = values_[line.operands[o]];
      const Measured slope = SlopeOf(line, o, y.value);
      if ((slope.value == 0 && slope.tangent == 0 && kink == 0) || !std::isfinite(slope.value)) continue;
      if (operand.magnitude != 0) y.magnitude += std::abs(slope.value) * operand.magnitude;
      // The slope is wrong by what its operands are wrong by: curvatures are about 1.
      y.Depend(operand, slope.value, slope.tangent, errors + kink);
    }
    return y;
  }

  // The derivative by an operand. Of three, the third is what is selected where the first is 0.
  Measured SlopeOf(const Line& line, std::size_t operand, double y) const {
    if (operand == 2) return x(line, 0) != 0 ? 0 : 1;
    const auto slope = operand == 0 ? line.function->by_first : line.function->by_second;
    if (!slope) return 0;
    double moves = 0;
    for (std::size_t o : line.operands) moves = std::max(moves, std::abs(values_[o].tangent));
    // Its tangent by a difference; on both sides of a jump it stays what it is.
    const double step = line.function->jump == 0 && moves > 0 ? 1e-5 / moves : 0;
    const auto at = [&](double way) {
      const auto moved = [&](std::size_t o) {
        return o < line.operands.size() ? x(line, o) + way * values_[line.operands[o]].tangent : 0;
      };
      return slope(moved(0), moved(1), line.function->value(moved(0), moved(1), moved(2)));
    };
    return {slope(x(line, 0), x(line, 1), y), step > 0 ? (at(step) - at(-step)) / (2 * step) : 0};
  }

  // By how many roundings the slopes of an operation are wrong that stands at its kink: rounding may take its operands to the
  // other side, where the slopes differ by `jump`. That is a curvature of the jump by the distance to the kink. errors: of all
  // operands.
  double KinkOf(const Line& line, double errors) const {
    constexpr double kNear = 1e-5, kLeast = 1e-30;  // several roundings of a float; in place of no distance at all
    const double jump = line.function->jump, distance = std::abs(x(line, 0) - x(line, 1));
    if (jump == 0 || (line.operands.size() > 1 && line.operands[0] == line.operands[1])) return 0;
    return distance < kNear * errors ? errors * jump / std::max(distance, kLeast) : 0;
  }

  const std::vector<Line>& lines_;
  const std::vector<ProgramTable>& tables_;
  std::vector<Number> values_;
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
  return Machine(LinesOf(rule.program), rule.tables).Run(f, pair, 0).value == 0;
}

void PairProgramReference::MakeScore(const Formulas& f, const Pair& pair, Number& score) {
  if (!f.attention().score) return;
  const auto& [program, tables] = *f.attention().score;
  score = Machine(LinesOf(program), tables).Run(f, pair, score);
  score.magnitude = std::max(std::isfinite(score.value) ? std::abs(score.value) : 0.0, score.magnitude);
}

}  // namespace heed::reference
