#include "lab/report/progress.h"

#include <pty.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <regex>
#include <stdexcept>

#include <gtest/gtest.h>

namespace heed::lab {
namespace {

// What stderr gets while a function runs, with stderr a terminal of so many columns.
template <class Function>
std::string OnTerminal(unsigned short columns, const Function& function) {
  int reader = -1, terminal = -1;
  const winsize size{.ws_row = 24, .ws_col = columns, .ws_xpixel = 0, .ws_ypixel = 0};
  if (openpty(&reader, &terminal, nullptr, nullptr, &size) != 0) throw std::runtime_error("no terminal");
  const int before = dup(STDERR_FILENO);
  dup2(terminal, STDERR_FILENO);
  function();
  fflush(stderr);
  dup2(before, STDERR_FILENO);
  close(before);
  close(terminal);
  std::string output;
  char bytes[256];
  for (ssize_t count = read(reader, bytes, sizeof bytes); count > 0; count = read(reader, bytes, sizeof bytes))
    output.append(bytes, static_cast<std::size_t>(count));
  close(reader);
  return output;
}

template <class Function>
std::string OnFile(const Function& function) {
  testing::internal::CaptureStderr();
  function();
  return testing::internal::GetCapturedStderr();
}

TEST(ProgressTest, WithoutATerminalOneLineAtTheEnd) {
  const std::string line = OnFile([] {
    Progress progress("runs", 5);
    for (int i = 1; i <= 5; ++i) progress.Update(i, i == 4 ? "gru: 1.2" : "");
  });
  EXPECT_TRUE(std::regex_match(line, std::regex("runs: 5/5 in \\d+ s, gru: 1\\.2\n"))) << line;
  EXPECT_TRUE(
      std::regex_match(OnFile([] { const Progress progress("runs", 5, false, 2); }), std::regex("runs: 2/5 in \\d+ s\n")));
}

TEST(ProgressTest, QuietSaysNothing) {
  const auto work = [] {
    Progress progress("runs", 5, /*quiet=*/true);
    progress.Update(5, "note");
  };
  EXPECT_EQ(OnFile(work), "");
  EXPECT_EQ(OnTerminal(80, work), "");
}

TEST(ProgressTest, OnATerminalOneLineIsDrawnInPlace) {
  const std::string drawn = OnTerminal(100, [] {
    Progress progress("runs", 4, false, 1);
    progress.Update(4, "gru: 1.2");
  });
  const std::string quarter = "\r\033[2Kruns [######..................] 1/4";
  EXPECT_EQ(drawn.substr(0, quarter.size()), quarter) << drawn;
  const std::regex whole("\r\033\\[2Kruns \\[#{24}\\] 4/4  \\d+ s  gru: 1\\.2\r\n");
  EXPECT_TRUE(std::regex_search(drawn, whole)) << drawn;
  EXPECT_EQ(std::count(drawn.begin(), drawn.end(), '\n'), 1);
}

TEST(ProgressTest, FitsTheTerminal) {
  const std::string drawn = OnTerminal(30, [] {
    Progress progress("runs", 4);
    progress.Update(4, std::string(200, 'x'));
  });
  const std::regex line("\r\033\\[2K([^\r\n]*)");
  int64_t lines = 0;
  for (auto match = std::sregex_iterator(drawn.begin(), drawn.end(), line); match != std::sregex_iterator(); ++match, ++lines)
    EXPECT_LE((*match)[1].length(), 29) << drawn;
  EXPECT_EQ(lines, 2) << drawn;
}

TEST(ProgressTest, MoreThanAllAndNothingToDoAreAFullBar) {
  const std::string bar = "[" + std::string(24, '#') + "]";
  EXPECT_NE(OnTerminal(80, [] { Progress("runs", 2).Update(3); }).find(bar + " 3/2"), std::string::npos);
  EXPECT_NE(OnTerminal(80, [] { const Progress progress("runs", 0); }).find(bar + " 0/0"), std::string::npos);
  const std::string endless = OnTerminal(80, [] { Progress("runs", 0).Update(7); });
  EXPECT_NE(endless.find("runs 7  "), std::string::npos) << endless;
}

TEST(ProgressTest, DurationsAreRoundedToTheirUnit) {
  const std::pair<double, const char*> durations[] = {
      {0, "0 s"},
      {-3, "0 s"},
      {59.4, "59 s"},
      {59.6, "1 min 00 s"},
      {125, "2 min 05 s"},
      {3599, "59 min 59 s"},
      {3599.6, "1 h 00 min"},
      {3780, "1 h 03 min"},
      {360000, "100 h 00 min"},
  };
  for (const auto& [seconds, text] : durations) EXPECT_EQ(Progress::FormatDuration(seconds), text);
}

}  // namespace
}  // namespace heed::lab
