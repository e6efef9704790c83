// Texts from outside in messages: one printable line of whole characters, whatever they hold.
#include "heed/shown_name.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "heed/error.h"
#include "heed/score_program.h"

namespace heed {
namespace {

TEST(ShownName, EscapesAndCuts) {
  const std::string line(80, 'a');
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"", ""},
      {"W_q.weight", "W_q.weight"},
      {"a\"b\\c", R"(a\"b\\c)"},
      {"\n\t\r\b\f", R"(\n\t\r\b\f)"},
      {std::string("a\0b", 3), R"(a\u0000b)"},
      {"\x1b[31m\x7f", R"(\u001b[31m\u007f)"},
      {"caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80", "caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80"},
      {"\xe2\x80\xae\xc2\x9b\xef\xbb\xbf\xf0\x9f\xbf\xbf", R"(\u202e\u009b\ufeff\ud83f\udfff)"},
      {"\xff\xc3(\xe2\x82", R"(\ufffd\ufffd(\ufffd\ufffd)"},
      {line, line},
      {line + "a", line + "..."},
      {line.substr(1) + "\xc3\xa9", line.substr(1) + "\xc3\xa9"},
      {line.substr(1) + "\xc3\xa9" + "b", line.substr(1) + "\xc3\xa9..."},
  };
  for (const auto& [name, shown] : cases) {
    EXPECT_EQ(ShownName(name), shown);
    EXPECT_EQ(QuotedName(name), '"' + shown + '"');
  }
}

TEST(ShownName, StandsInErrorsOfPrograms) {
  for (const std::string word : {"\xc3\xa9", "\n", "\x1b[31m", "\xff"}) {
    for (int before : {0, 1, 72, 73, 74}) {
      std::string text = "add ";
      text.append(static_cast<std::size_t>(before), 'a').append(word).append(90, 'b');
      try {
        ScoreProgram::FromText(text);
        ADD_FAILURE() << "was not refused";
      } catch (const InvalidArgument& error) {
        const std::string what = error.what();
        EXPECT_NE(what.find("in '" + ShownName(text) + "'"), std::string::npos) << what;
        EXPECT_TRUE(std::all_of(what.begin(), what.end(), [](char c) {
          return static_cast<unsigned char>(c) >= ' ' && c != 0x7f;
        })) << what;
      }
    }
  }
}

}  // namespace
}  // namespace heed
