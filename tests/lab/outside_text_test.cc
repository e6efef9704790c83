// Names and values from files, whatever they hold, in messages and on pages: one printable line of UTF-8, cut, with the file's
// name.
#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "heed/error.h"
#include "heed/utf8.h"
#include "lab/data/text.h"
#include "lab/report/svg.h"
#include "lab/series/data.h"
#include "lab/series/npy_file.h"
#include "lab/training/run_folder.h"
#include "tests/error_text.h"
#include "tests/scratch_folder.h"

namespace heed::lab {
namespace {

const std::vector<std::string> kHostile{
    "\x1b]0;title\x07\x1b[31m",
    "a\x7f\b\v",
    "\xe2\x80\xae.csv",
    std::string("\xc2\x9b") + "31m",
    "\xef\xbb\xbf",
    "caf\xe9",
    "\xed\xa0\x80",
    std::string(100000, 'x'),
    std::string(50000, '\x1b'),
};

// Whether a terminal shows the text as it stands, on one line.
bool Shows(const std::string& text) {
  const DecodedUtf8 decoded = DecodeUtf8(text);
  return decoded.read == text.size() && std::ranges::none_of(decoded.characters, [](char32_t c) {
           return c < 0x20 || (c >= 0x7f && c < 0xa0) || (c >= 0x202a && c <= 0x202e);
         });
}

struct Case {
  const char* name;
  const char* file;
  std::function<std::string(const std::string&)> contents;  // of the file, around the hostile text
  std::function<void(const std::filesystem::path&)> read;
};

SeriesColumns Columns(const std::string& target, const std::string& sequence = "", const std::string& time = "") {
  return {.target = target, .sequence = sequence, .time = time, .features = {}, .goal = ""};
}

std::string Quoted(const std::string& cell) { return '"' + cell + '"'; }

std::vector<Case> Cases() {
  const auto csv = [](const SeriesColumns& columns) {
    return [columns](const std::filesystem::path& path) { ReadSeriesCsv(path, columns); };
  };
  const auto npy = [](const std::filesystem::path& path) { NpyFile{path}; };
  const auto header = [](const std::string& text) {
    const std::string whole = text.substr(0, 60000);
    return std::string("\x93NUMPY\x01\x00", 8) + static_cast<char>(whole.size() & 0xff) + static_cast<char>(whole.size() >> 8) +
           whole;
  };
  const auto config = [](const std::filesystem::path& path) { RunFolder(path.parent_path()).ReadConfig(); };
  return {
      {"column", "d.csv", [](const std::string& x) { return "x," + Quoted(x) + "\n1,2\n"; }, csv(Columns("y"))},
      {"column of a cell", "d.csv", [](const std::string& x) { return Quoted(x) + ",y\nz,2.5\n1,2.5\n"; }, csv(Columns("y"))},
      {"column twice", "d.csv", [](const std::string& x) { return Quoted(x) + "," + Quoted(x) + ",y\n1,2,3\n"; },
       csv(Columns("y"))},
      {"number", "d.csv", [](const std::string& x) { return "x,y\n1,2.5\n" + Quoted(x) + ",2.5\n"; }, csv(Columns("y"))},
      {"date", "d.csv", [](const std::string& x) { return "x,t,y\n1,2024-03-01,1.5\n1," + Quoted(x) + ",2.5\n"; },
       csv(Columns("y", "", "t"))},
      {"target", "d.csv", [](const std::string& x) { return "x,y\n1,2.5\n1," + Quoted(x) + "\n"; }, csv(Columns("y"))},
      {"many columns", "d.csv",
       [](const std::string& x) {
         std::string names, cells;
         for (int i = 0; i < 100000; ++i) names += x.substr(0, 4) + std::to_string(i) + ",", cells += "1,";
         return names + "y\n" + cells + "1\n";
       },
       csv(Columns("y", "", "when"))},
      {"type of an array", "d.npy", [&](const std::string& x) { return header("{'descr': '" + x + "'}"); }, npy},
      {"key of an array", "d.npy", [&](const std::string& x) { return header("{'" + x + "': 1}"); }, npy},
      {"encoder of a run", "config.json",
       [](const std::string& x) {
         return R"({"format": 1, "model": {"encoder": ")" + x + R"("}, "training": {}, "text": {}})";
       },
       config},
      {"text", "d.txt", [](const std::string& x) { return x + "\xff"; },
       [](const std::filesystem::path& path) { ReadText(path.string()); }},
  };
}

TEST(OutsideText, StandsInErrorsPrintableAndCut) {
  for (const Case& one : Cases()) {
    for (std::size_t i = 0; i < kHostile.size(); ++i) {
      const ScratchFolder scratch;
      const std::filesystem::path path = scratch.path() / one.file;
      WriteBytes(path, one.contents(kHostile[i]));
      const std::string what = WhatOf<Error>([&] { one.read(path); });
      EXPECT_TRUE(Holds(what, one.file)) << one.name << " " << i;
      EXPECT_TRUE(Shows(what)) << one.name << " " << i;
      EXPECT_LT(what.size(), 4096u) << one.name << " " << i;
    }
  }
}

TEST(OutsideText, StandsOnPagesAsUtf8) {
  for (const std::string& text : kHostile) {
    EXPECT_TRUE(Shows(EscapeMarkup(text)));
    EXPECT_TRUE(Shows(GnuplotString(text)));
  }
}

}  // namespace
}  // namespace heed::lab
