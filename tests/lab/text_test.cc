#include "lab/data/text.h"

#include <fstream>
#include <string>
#include <utility>

#include <gtest/gtest.h>

#include "heed/error.h"
#include "tests/scratch_folder.h"

namespace heed::lab {
namespace {

std::string ErrorOf(const std::string& bytes) {
  try {
    DecodeText("sample", bytes);
  } catch (const FileError& error) {
    return error.what();
  }
  return "no error";
}

TEST(Text, DecodesEveryLengthOfUtf8AndBack) {
  // The first and last code point of each encoded length, and those around the surrogates.
  const std::u32string characters = {0x0, 0x7f, 0x80, 0x7ff, 0x800, 0xd7ff, 0xe000, 0xffff, 0x10000, 0x10ffff};
  const std::string bytes = EncodeUtf8(characters);
  EXPECT_EQ(bytes.size(), 1u + 1 + 2 + 2 + 3 + 3 + 3 + 3 + 4 + 4);
  EXPECT_EQ(DecodeText("sample", bytes).characters, characters);
}

TEST(Text, RefusesWhatIsNotUtf8WithTheOffset) {
  const std::string bad[] = {
      "\x80",              // continuation without a lead
      "\xc0\xaf",          // overlong '/'
      "\xc1\xbf",          // overlong, two bytes
      "\xe0\x80\xaf",      // overlong, three bytes
      "\xf0\x80\x80\xaf",  // overlong, four bytes
      "\xed\xa0\x80",      // surrogate
      "\xf4\x90\x80\x80",  // beyond U+10FFFF
      "\xf5\x80\x80\x80",  // no such lead
      "\xe2\x82",          // truncated
      "\xe2\x28\xa1",      // second byte is none
      "\xff",
  };
  for (const std::string& bytes : bad) {
    const std::string message = ErrorOf("ab" + bytes);
    EXPECT_NE(message.find("sample"), std::string::npos) << message;
    EXPECT_NE(message.find("byte 2"), std::string::npos) << message;
  }
}

TEST(Text, NamesTheFileThatIsMissingEmptyOrAFolder) {
  const ScratchFolder scratch;
  const std::string missing = (scratch.path() / "missing.txt").string(), empty = (scratch.path() / "empty.txt").string();
  std::ofstream(empty).close();
  for (const std::string& path : {missing, empty, scratch.path().string()}) {
    try {
      ReadText(path);
      ADD_FAILURE() << path;
    } catch (const FileError& error) {
      EXPECT_NE(std::string(error.what()).find(path), std::string::npos) << error.what();
    }
  }
}

TEST(Text, ReadsAFileWhole) {
  const ScratchFolder scratch;
  const std::string path = (scratch.path() / "text.txt").string();
  std::string contents;
  for (int i = 0; i < 30000; ++i) contents += "line " + std::to_string(i) + " \xc3\xa9\n";  // longer than one read
  std::ofstream(path, std::ios::binary) << contents;
  EXPECT_EQ(EncodeUtf8(ReadText(path).characters), contents);
}

TEST(Text, HasNoByteOrderMarkAndEndsLinesInLf) {
  const ScratchFolder scratch;
  const std::string path = (scratch.path() / "text.txt").string();
  const std::pair<std::string, std::u32string> texts[] = {
      {"\xef\xbb\xbf"
       "ab",
       U"ab"},
      {"a\r\nb\r\n", U"a\nb\n"},
      {"a\rb\r", U"a\nb\n"},
      {"a\r\r\n\nb", U"a\n\n\nb"},
      {"a\xef\xbb\xbf", U"a\ufeff"},
  };
  for (const auto& [bytes, characters] : texts) {
    std::ofstream(path, std::ios::binary) << bytes;
    EXPECT_EQ(ReadText(path).characters, characters);
    EXPECT_EQ(EncodeUtf8(DecodeText("prompt", bytes).characters), bytes) << "a prompt is taken as it is";
  }
}

}  // namespace
}  // namespace heed::lab
