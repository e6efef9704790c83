// Programs as objects and as texts: what is accepted, what is refused and how, and one program in many threads.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <list>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "heed/attention.h"
#include "heed/score_program.h"
#include "position/pair_program/reference.h"
#include "problem.h"
#include "reference/cases.h"
#include "reference/trial_setup.h"

namespace heed {
namespace {

using namespace program;

template <class Make>
std::string WordsOf(const Make& make) {
  try {
    make();
  } catch (const InvalidArgument& error) {
    return error.what();
  }
  return "nothing is wrong";
}

// The texts of the programs that cases have.
std::vector<std::string> Texts(int random_programs) {
  std::vector<std::string> texts;
  std::mt19937_64 random(1);
  const auto add = [&](reference::Case& c) {
    c.shape = {2, 4, 2, 9, 11, 8, 8};
    const reference::Setup<float> setup(c, 1, random);
    if (setup.attention.score) texts.push_back(setup.attention.score->program.Text());
    if (setup.attention.mask_program) texts.push_back(setup.attention.mask_program->program.Text());
  };
  for (int number = 0; number < reference::ScorePrograms() + random_programs; ++number) {
    reference::Case c;
    c.score_program = std::min(number, reference::ScorePrograms());
    c.program_seed = static_cast<uint64_t>(number);
    c.mask_rule = number % reference::MaskRules();
    add(c);
  }
  return texts;
}

bool IsMask(const std::string& text) {
  return WordsOf([&] { MaskProgram::FromText(text); }) == "nothing is wrong";
}

TEST(ProgramText, MakesTheSameProgramAgain) {
  for (const std::string& text : Texts(300))
    EXPECT_EQ(IsMask(text) ? MaskProgram::FromText(text).Text() : ScoreProgram::FromText(text).Text(), text);
}

TEST(ProgramText, HoldsNumbersToTheLastBit) {
  for (double number : {0.1, 1e-310, -0.0, 1.7976931348623157e308, std::numeric_limits<double>::infinity()}) {
    const std::string text = ScoreProgram(Score() * number).Text();
    EXPECT_EQ(ScoreProgram::FromText(text).Text(), text);
    EXPECT_EQ(text, ScoreProgram::FromText(text).Text());
  }
  EXPECT_EQ(ScoreProgram(Score() + 0.1).Text(), "score;constant real 0.1;add 0 1");
}

TEST(ProgramText, OfHostileOriginIsRefusedByItsInstruction) {
  const std::array<std::array<const char*, 2>, 24> cases{{
      {"", "program: expected at least one instruction"},
      {";;;", "program: expected at least one instruction"},
      {"scores", "program: expected an operation in 'scores'"},
      {"gradient", "program: expected an operation"},
      {"scaled 0 0", "program: expected an operation"},
      {"query_origin", "program: expected an operation"},
      {"score;add 0", "program: expected as many operands"},
      {"score;add 0 0 0", "program: expected as many operands"},
      {"score;add 0 1", "program: expected the number of an earlier instruction in 'add 0 1'"},
      {"score;add 0 -1", "program: expected the number of an earlier instruction"},
      {"score;add 0 99999999999999999999", "program: expected the number of an earlier instruction"},
      {"score;add 0 0x0", "program: expected the number of an earlier instruction"},
      {"query;score 0", "program: expected as many operands"},
      {"constant", "program: expected a kind"},
      {"constant real", "program: expected a number"},
      {"constant real 1 2", "program: expected nothing more"},
      {"constant whole 1.5", "program: expected a whole number within 2^53"},
      {"constant whole 9007199254740993e3", "program: expected a whole number within 2^53"},
      {"constant truth 2", "program: expected 0 or 1"},
      {"query;read real 16 0", "program: expected a table's place in 0..15, got 16"},
      {"query;read real -1 0", "program: expected a table's place in 0..15, got -1"},
      {"query;read real 0", "program: expected 1 to 4 indices for table 0, got 0"},
      {"query;read real 0 0;read whole 0 0;add 1 2", "program: table 0 is read in two ways"},
      {"query;dot 0 1 3 0", "program: expected as many indices as there are"},
  }};
  for (const auto& [text, words] : cases) {
    const std::string refused = WordsOf([&text = text] { ScoreProgram::FromText(text); });
    EXPECT_TRUE(refused.starts_with(words)) << text << ": " << refused;
  }
  std::string long_text = "score";
  for (int x = 0; x < 5000; ++x) long_text += ";negate " + std::to_string(x);
  EXPECT_EQ(WordsOf([&] { ScoreProgram::FromText(long_text); }), "program: expected at most 4096 operations");
}

// Whatever bytes are changed, a text is refused or is a program that runs.
TEST(ProgramText, WithChangedBytesIsRefusedOrRuns) {
  std::mt19937_64 random(7);
  const std::vector<std::string> texts = Texts(0);
  const std::string letters = " ;-0123456789.einfaqsr";
  Problem<float> problem({1, 2, 1, 5, 6, 4, 4});
  SerialExecutor serial;
  const std::vector<float> reals(625, 0.5f);
  const std::vector<int64_t> wholes(625, 1);
  int ran = 0;
  for (int x = 0; x < 20000; ++x) {
    std::string text = texts[random() % texts.size()];
    for (uint64_t change = 0; change <= random() % 3; ++change) {
      const std::size_t at = random() % text.size();
      if (random() % 3 == 0)
        text.erase(at, 1 + random() % 4);
      else
        text[at] = letters[random() % letters.size()];
      if (text.empty()) text = ";";
    }
    std::optional<ScoreProgram> program;
    if (WordsOf([&] { program = ScoreProgram::FromText(text); }) != "nothing is wrong") continue;
    EXPECT_EQ(ScoreProgram::FromText(program->Text()).Text(), program->Text());
    Attention attention;
    attention.score = ProgramScore{*program, {}};
    for (const Code::TableUse& use : program->code().tables()) {
      std::array<int64_t, 4> extent{1, 1, 1, 1};
      std::fill_n(extent.rbegin(), use.dimensions, 5);
      if (use.kind == Kind::kReal)
        attention.score->tables.push_back(View<const float, 4>::Contiguous(reals.data(), extent));
      else
        attention.score->tables.push_back(View<const int64_t, 4>::Contiguous(wholes.data(), extent));
    }
    if (WordsOf([&] { problem.Run(attention, serial); }) == "nothing is wrong") ++ran;
  }
  EXPECT_GT(ran, 100);
}

TEST(Expressions, RefuseKindsWhereTheyStand) {
  const Captured table(0);
  EXPECT_EQ(WordsOf([&] { table(Score()); }), "program: read: expected whole indices, got a real number");
  EXPECT_EQ(WordsOf([&] { table(); }), "program: expected 1 to 4 indices for table 0, got 0");
  EXPECT_EQ(WordsOf([&] { Select(Score(), 1, 2); }), "program: select: expected a boolean condition, got a real number");
  EXPECT_EQ(WordsOf([&] { Query() & true; }), "program: and: expected booleans, got a whole number");
  EXPECT_EQ(WordsOf([&] { Captured(16)(Query()); }), "program: expected a table's place in 0..15, got 16");
  EXPECT_EQ(WordsOf([&] { Dot({Captured::Whole(0), {Query()}}, {table, {Key()}}); }), "program: dot: expected tables of reals");
  EXPECT_EQ(WordsOf([&] { Score() + (int64_t{1} << 60); }),
            "program: expected whole numbers within 2^53, got 1152921504606846976");
  EXPECT_EQ(WordsOf([&] { ScoreProgram(Query() < Key()); }),
            "score: expected a program whose result is a number, got a boolean");
  EXPECT_EQ(WordsOf([&] { MaskProgram(Query() - Key()); }), "mask: expected a program whose result is a boolean, got a number");
  EXPECT_EQ(WordsOf([&] { MaskProgram(Score() > 0); }), "mask: expected a program that does not depend on the score");
}

TEST(Expressions, AreAsDeepAsProgramsAreLong) {
  Expression deep = Score();
  for (int x = 0; x < 4000; ++x) deep = Tanh(deep);
  EXPECT_EQ(ScoreProgram(deep).Text().substr(0, 12), "score;tanh 0");
  const auto too_deep = [&] {
    for (int x = 0; x < 1000000; ++x) deep = Tanh(deep);
  };
  EXPECT_EQ(WordsOf(too_deep), "program: expected at most 4096 operations");
}

TEST(Expressions, ComputeWhatIsConstantAndShareWhatIsTheSame) {
  EXPECT_EQ(ScoreProgram(Score() * (Expression(2.0) * 3)).Text(), "score;constant real 6;multiply 0 1");
  const Expression distance = Abs(Query() - Key());
  EXPECT_EQ(ScoreProgram(Score() + Sqrt(Abs(Query() - Key())) * Sqrt(distance)).Text(),
            "score;query;key;subtract 1 2;absolute 3;sqrt 4;multiply 5 5;add 0 6");
}

TEST(ProgramTables, AreCheckedBeforeAnythingIsWritten) {
  const std::vector<float> reals(16, 0.5f);
  const std::vector<int64_t> wholes(16, 1);
  const ProgramTable real = View<const float, 4>::Contiguous(reals.data(), {1, 1, 4, 4});
  const ProgramTable narrow = View<const float, 4>::Contiguous(reals.data(), {1, 1, 4, 3});
  const ProgramTable wide = View<const float, 4>::Contiguous(reals.data(), {1, 3, 1, 4});
  const ProgramTable whole = View<const int64_t, 4>::Contiguous(wholes.data(), {1, 1, 4, 4});
  const Captured table(0);
  const ScoreProgram reads(Score() + table(Head(), Key())), dots(Dot({table, {Head()}}, {Captured(1), {Key()}}));
  const auto words = [](const ScoreProgram& program, std::vector<ProgramTable> tables) {
    Problem<float> problem({1, 2, 2, 3, 4, 8, 8});
    SerialExecutor serial;
    Attention attention;
    attention.score = ProgramScore{program, std::move(tables)};
    std::string refused = WordsOf([&] { problem.Forward(attention, serial); });
    EXPECT_EQ(std::isnan(problem.out[0]), refused != "nothing is wrong");
    return refused;
  };
  EXPECT_EQ(words(reads, {real}), "nothing is wrong");
  EXPECT_EQ(words(reads, {}), "score.tables: expected 1 tables, got 0");
  EXPECT_EQ(words(reads, {whole}), "score.tables[0]: the program reads real numbers, got whole numbers");
  EXPECT_EQ(words(reads, {wide}),
            "score.tables[0]: expected 1 in all but the last 2 extents, which the program reads, got [1, 3, 1, 4]");
  const ScoreProgram counts(Score() + Captured::Whole(0)(Head(), Key()));
  EXPECT_EQ(words(counts, {whole}), "nothing is wrong");
  std::vector<int64_t> large(16, int64_t{1} << 53);
  const ProgramTable of_large = View<const int64_t, 4>::Contiguous(large.data(), {1, 1, 4, 4});
  EXPECT_EQ(words(counts, {of_large}), "nothing is wrong");
  large[15] = -(int64_t{1} << 53) - 1;
  EXPECT_EQ(words(counts, {of_large}), "score.tables[0]: expected whole numbers within 2^53, got -9007199254740993");
  EXPECT_EQ(words(dots, {real, real}), "nothing is wrong");
  EXPECT_EQ(words(dots, {real, narrow}), "score.tables[1]: expected rows as wide as those of table 0, 4, got 3");
  EXPECT_EQ(words(reads, {View<const float, 4>::Contiguous(nullptr, {1, 1, 4, 4})}),
            "score.tables[0]: no memory behind shape [1, 1, 4, 4]");
}

// A program is read only: threads that share one find the same bits as alone.
TEST(ScorePrograms, ServeManyThreadsAtOnce) {
  const std::vector<float> rates{0.3f, 0.7f};
  const ScoreProgram program(3.0 * Tanh(Score() / 3.0) - Captured(0)(Head()) * Log1p(Abs(Query() - Key())));
  const MaskProgram mask(Key() <= Query());
  const auto run = [&](Problem<float>& problem) {
    SerialExecutor serial;
    Attention attention;
    attention.score = ProgramScore{program, {View<const float, 4>::Contiguous(rates.data(), {1, 1, 1, 2})}};
    attention.mask_program = ProgramMask{mask, {}};
    problem.Run(attention, serial);
  };
  Problem<float> alone({1, 2, 2, 50, 60, 16, 16});
  run(alone);
  std::list<Problem<float>> problems;
  for (int x = 0; x < 8; ++x) problems.emplace_back(Shape{1, 2, 2, 50, 60, 16, 16});
  std::vector<std::thread> threads;
  for (Problem<float>& problem : problems) threads.emplace_back([&] { run(problem); });
  for (std::thread& thread : threads) thread.join();
  for (const Problem<float>& problem : problems) {
    EXPECT_EQ(problem.out, alone.out);
    EXPECT_EQ(problem.d_q, alone.d_q);
    EXPECT_EQ(problem.d_bias, alone.d_bias);
  }
}

}  // namespace
}  // namespace heed
