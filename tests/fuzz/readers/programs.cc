// The text of score and mask programs, and calls of attention with them.
#include <array>
#include <string>
#include <vector>

#include "heed/attention.h"
#include "heed/error.h"
#include "heed/executor.h"
#include "heed/score_program.h"
#include "heed/thread_workspace.h"
#include "tests/fuzz/readers/reader.h"

namespace heed::fuzz {
namespace {

using namespace heed::program;  // NOLINT(google-build-using-namespace): programs are written in its words

constexpr int64_t kQueries = 3, kKeys = 5, kWidth = 2;
using Queries = std::array<float, kQueries * kWidth>;
using Keys = std::array<float, kKeys * kWidth>;

// So many tables [1, 1, 1, 6]; the last digit of `kinds` in base 3 tells whether the first is of real numbers, whole ones or
// booleans, and so on.
std::vector<ProgramTable> Tables(int64_t count, int64_t kinds) {
  static constexpr std::array<float, 6> kReal{0.5F, -1, 2, 0, 3, -0.25F};
  static constexpr std::array<int64_t, 6> kWhole{0, 1, 1, 2, -1, 5};
  static constexpr std::array<bool, 6> kTruth{true, false, true, true, false, true};
  const std::array<int64_t, 4> extent{1, 1, 1, 6};
  std::vector<ProgramTable> tables;
  for (int64_t i = 0; i < count; ++i, kinds /= 3) {
    if (kinds % 3 == 0) tables.emplace_back(View<const float, 4>::Contiguous(kReal.data(), extent));
    if (kinds % 3 == 1) tables.emplace_back(View<const int64_t, 4>::Contiguous(kWhole.data(), extent));
    if (kinds % 3 == 2) tables.emplace_back(View<const bool, 4>::Contiguous(kTruth.data(), extent));
  }
  return tables;
}

void Call(const Attention& attention) {
  Queries q{}, out{}, d_out{}, d_q{};
  Keys k{}, v{}, d_k{}, d_v{};
  std::array<float, kQueries> lse{};
  for (std::size_t i = 0; i < q.size(); ++i) q[i] = static_cast<float>(i) - 2, d_out[i] = 1;
  for (std::size_t i = 0; i < k.size(); ++i) k[i] = v[i] = 3 - static_cast<float>(i);
  const auto queries = [](auto& numbers) { return View<float, 4>::Contiguous(numbers.data(), {1, 1, kQueries, kWidth}); };
  const auto keys = [](auto& numbers) { return View<float, 4>::Contiguous(numbers.data(), {1, 1, kKeys, kWidth}); };
  const auto rows = View<float, 3>::Contiguous(lse.data(), {1, 1, kQueries});
  SerialExecutor executor;
  Forward(attention, queries(q), keys(k), keys(v), queries(out), rows, ThreadWorkspace(), executor);
  Backward(attention, queries(q), keys(k), keys(v), queries(out), rows, queries(d_out), queries(d_q), keys(d_k), keys(d_v), {},
           ThreadWorkspace(), executor);
}

// Three letters: 's' of a score or 'm' of a mask, the number of its tables, their kinds (see Tables). Then the text.
void ReadProgram(std::string_view bytes) {
  if (bytes.size() < 3) throw InvalidArgument("program: too short");
  const std::string text(bytes.substr(3));
  const std::vector<ProgramTable> tables = Tables((bytes[1] - '0') & 15, static_cast<unsigned char>(bytes[2]) - '0');
  Attention attention;
  if (bytes[0] == 's') {
    const ScoreProgram program = ScoreProgram::FromText(text);
    Require(ScoreProgram::FromText(program.Text()).Text() == program.Text(), "a program's text is that of another");
    attention.score = ProgramScore{program, tables};
  } else {
    const MaskProgram program = MaskProgram::FromText(text);
    Require(MaskProgram::FromText(program.Text()).Text() == program.Text(), "a program's text is that of another");
    attention.mask_program = ProgramMask{program, tables};
  }
  Call(attention);
}

std::vector<std::string> Texts() {
  const auto score = [](const Expression& e) {
    return "s" + std::to_string(ScoreProgram(e).tables()) + "0" + ScoreProgram(e).Text();
  };
  const Captured table(0), whole = Captured::Whole(0);
  const Expression at = Remainder(Key(), 6), of = Min(Query(), 5), s = Score();
  std::vector<std::string> texts{
      score(s - table(at) * Log1p(Abs(table(of)) * Abs(Query() - Key()))),
      score(Select(Key() <= Query(), s, -1e30)),
      score(Tanh(s / 3) * 3 + Sigmoid(s) * Erf(s) + Sin(s) * Cos(QueryPosition() - KeyPosition())),
      score(s + Dot({table, {}}, {Captured(1), {}})),
      score(s * Power(Exp(-Abs(s)) + 1, Exp2(-Sqrt(Abs(s)))) + Reciprocal(s + 99)),
      score(s + Floor(s) + Truncate(s) + FloorDivide(Key(), 2) + Log(Max(Abs(s), 1)) + Batch() + Head())};
  const auto mask = [](const char* tables, const Expression& e) { return std::string("m") + tables + MaskProgram(e).Text(); };
  texts.push_back(mask("24", whole(at) == Captured::Whole(1)(of)));
  texts.push_back(mask("24", (BitXor(BitAnd(Key(), 3), BitOr(Query(), 1)) > 2) | !(whole(at) < Captured::Whole(1)(of))));
  texts.push_back(mask("28", Captured::Truth(0)(at) & (Captured::Truth(1)(of) != true)));
  return texts;
}

}  // namespace

const Reader kPrograms{"programs", "the text of a score or mask program, and a call with it", ReadProgram, Texts};

}  // namespace heed::fuzz
