#include "lab/report/printable.h"

#include <stdio.h>

#include <gtest/gtest.h>

namespace heed::lab {
namespace {

// What a shell hands on to a program.
std::string ThroughAShell(const std::string& word) {
  // NOLINTNEXTLINE(bugprone-command-processor): a shell is what this test asks
  FILE* const pipe = popen(("printf '%s|' " + word).c_str(), "r");
  std::string output;
  for (int c = fgetc(pipe); c != EOF; c = fgetc(pipe)) output.push_back(static_cast<char>(c));
  pclose(pipe);
  return output;
}

TEST(ShellWordTest, PlainWordsStayAsTheyAre) {
  for (const char* word : {"a", "--lengths", "8:16,32", "/tmp/run_1.csv", "label=x", "1e+5"}) EXPECT_EQ(ShellWord(word), word);
}

TEST(ShellWordTest, AShellGivesBackEveryText) {
  for (const std::string text : {"",  "two words", "it's", "$HOME", "`x`",   "a\"b", "*", "a;b", "~",   "#", "é", "back\\slash",
                                 "'", "a\nb",      "!",    "a&b",   "{a,b}", "[x]",  "(", "<",   "a\tb"}) {
    EXPECT_EQ(ThroughAShell(ShellWord(text)), text + "|");
  }
}

}  // namespace
}  // namespace heed::lab
