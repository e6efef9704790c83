#include "lab/series/npy_file.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <string>
#include <vector>

#include "heed/error.h"
#include "lab/report/figure.h"
#include "lab/report/file.h"
#include "lab/series/data.h"
#include "tests/error_text.h"
#include "tests/scratch_folder.h"

namespace heed::lab {
namespace {

std::filesystem::path ArrayIn(const ScratchFolder& folder, const std::string& name, const std::string& contents) {
  WriteFile(folder.path() / name, contents);
  return folder.path() / name;
}

std::string Npy(const std::string& header, const std::string& values) {
  std::string file("\x93NUMPY\x01\x00", 8);
  file.push_back(static_cast<char>(header.size() & 0xff));
  file.push_back(static_cast<char>(header.size() >> 8));
  return file + header + values;
}

std::vector<double> NpyValues(const std::string& bytes, bool may_lack = false) {
  const ScratchFolder folder;
  return NpyFile(ArrayIn(folder, "a.npy", bytes), may_lack).Values();
}

std::string NpyError(const std::string& bytes, bool may_lack = false) {
  return WhatOf<Error>([&] { NpyValues(bytes, may_lack); });
}

TEST(NpyFileTest, ReadsWhatNumPyWrites) {
  const ScratchFolder folder;
  const NpyFile array(ArrayIn(folder, "a.npy", FormatNpy(2, 3, {1, 2, 3, 4, 5, -6.5})));
  EXPECT_EQ(array.shape(), (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(array.Values(), (std::vector<double>{1, 2, 3, 4, 5, -6.5}));
  EXPECT_FALSE(array.whole());
  const NpyFile labels(
      ArrayIn(folder, "y.npy", Npy("{'descr': '|i1', 'fortran_order': False, 'shape': (2,), }\n", "\x01\xff")));
  EXPECT_EQ(labels.Values(), (std::vector<double>{1, -1}));
  EXPECT_TRUE(labels.whole());
  EXPECT_EQ(NpyValues(Npy("{\"shape\": (1, 2), 'fortran_order':False,'descr': '|u1'}", "\x01\x02")),
            (std::vector<double>{1, 2}));
}

TEST(NpyFileTest, RefusesWhatIsNotAnArrayOfNumbers) {
  const std::string eight(8, '\0');
  EXPECT_TRUE(Holds(NpyError("PK\x03\x04"), "no NPY file"));
  EXPECT_TRUE(Holds(NpyError(Npy("{'descr': '|O', 'fortran_order': False, 'shape': (1,), }", eight)), "pickled"));
  EXPECT_TRUE(Holds(NpyError(Npy("{'descr': '>f8', 'fortran_order': False, 'shape': (1,), }", eight)), "'>f8'"));
  EXPECT_TRUE(Holds(NpyError(Npy("{'descr': '<U2', 'fortran_order': False, 'shape': (1,), }", eight)), "'<U2'"));
  EXPECT_TRUE(Holds(NpyError(Npy("{'descr': [('a', '<f8')], 'fortran_order': False, 'shape': (1,), }", eight)), "structured"));
  EXPECT_TRUE(Holds(NpyError(Npy("{'descr': '<f8', 'fortran_order': True, 'shape': (1,), }", eight)), "Fortran"));
  EXPECT_TRUE(Holds(NpyError(Npy("{'descr': '<f8', 'fortran_order': False, 'shape': (2,), }", eight)), "16 bytes"));
  EXPECT_TRUE(Holds(NpyError(Npy("{'descr': '<f8', 'fortran_order': False, 'shape': (1,), }", eight + "x")), "9"));
  EXPECT_TRUE(Holds(NpyError(Npy("{'descr': '<f8', 'fortran_order': False, 'shape': (4294967296, 4294967296, 16), }", "")),
                    "too large"));
  EXPECT_TRUE(Holds(NpyError(Npy("{'descr': '<f8', 'fortran_order': False, 'shape': (-1,), }", "")), "shape"));
  EXPECT_TRUE(
      Holds(NpyError(Npy("{'descr': '<f8', 'fortran_order': False}", eight)), "descr, fortran_order and shape, each once"));
  EXPECT_TRUE(Holds(NpyError(Npy("{'descr': '<f8', 'descr': '<f8', 'fortran_order': False, 'shape': (1,)}", eight)), "once"));
  EXPECT_TRUE(
      Holds(NpyError(Npy("{'descr': '<f8', 'order': 'C', 'fortran_order': False, 'shape': (1,)}", eight)), "no other key"));
  EXPECT_TRUE(Holds(NpyError(Npy("{'descr': '<f8', 'fortran_order': 0, 'shape': (1,)}", eight)), "neither True nor False"));
  EXPECT_TRUE(Holds(NpyError(Npy("__import__('os')", eight)), "malformed"));
  const std::string whole = "{'descr': '<f8', 'fortran_order': False, 'shape': (1, 1), }";
  EXPECT_TRUE(Holds(NpyError(Npy(whole + std::string(1, '\0') + "x", eight)), "NUL"));
  EXPECT_TRUE(Holds(NpyError(Npy("{'descr': '<f8', 'fortran_order': False, 'shape': (1,), } x", eight)), "follows"));
  EXPECT_TRUE(Holds(NpyError(std::string("\x93NUMPY\x01\x00\xff\xff{}", 12)), "claims 65535 bytes"));
  EXPECT_TRUE(Holds(NpyError(std::string("\x93NUMPY\x07\x00\x02\x00{}", 12)), "version 7"));
  const double nan = NAN, infinity = INFINITY;
  EXPECT_TRUE(Holds(NpyError(FormatNpy(2, 2, {1, 2, nan, 4})), "[1, 0] is not finite; fill it in"));
  EXPECT_TRUE(std::isnan(NpyValues(FormatNpy(2, 2, {1, 2, nan, 4}), /*may_lack=*/true)[2]));
  EXPECT_TRUE(Holds(NpyError(FormatNpy(2, 2, {1, 2, infinity, 4}), /*may_lack=*/true), "[1, 0]"));
  for (std::size_t cut = 0; cut < 100; ++cut) EXPECT_NE(NpyError(FormatNpy(2, 3, {1, 2, 3, 4, 5, 6}).substr(0, cut)), "");
}

TEST(SeriesDataTest, ArraysMustFitEachOther) {
  const ScratchFolder folder;
  const auto X = ArrayIn(folder, "X.npy", FormatNpy(4, 3, std::vector<double>(12, 0.5)));
  const auto y =
      ArrayIn(folder, "y.npy", Npy("{'descr': '|i1', 'fortran_order': False, 'shape': (4,), }\n", "\x07\x09\x07\x07"));
  const SeriesData data = ReadSeriesNpy(X, y, "");
  EXPECT_EQ(data.goal, "classification");
  EXPECT_EQ(data.classes, (std::vector<std::string>{"7", "9"}));
  EXPECT_EQ(data.sequences.size(), 4u);
  EXPECT_EQ(data.sequences[1].targets, std::vector<double>{1});
  EXPECT_EQ(ReadSeriesNpy(X, y, "regression").sequences[1].targets, std::vector<double>{9});
  EXPECT_EQ(ReadSeriesNpy(X, {}, "forecast").sequences[0].targets.size(), 3u);
  const auto wrong = ArrayIn(folder, "w.npy", FormatNpy(5, 1, std::vector<double>(5, 0.0)));
  EXPECT_TRUE(Holds(WhatOf<Error>([&] { ReadSeriesNpy(X, wrong, ""); }), "[4] or [4, 3]"));
  EXPECT_TRUE(Holds(WhatOf<Error>([&] { ReadSeriesNpy(X, {}, ""); }), "target"));
  for (const double label : {0.5, 9007199254740994.0, -1e300}) {
    const auto y = ArrayIn(folder, "large.npy", FormatNpy(4, 3, {0, 1, label, 1, 0, 0, 0, 0, 0, 0, 0, 0}));
    EXPECT_TRUE(Holds(WhatOf<Error>([&] { ReadSeriesNpy(X, y, "classification"); }), "whole numbers up to 2^53, got")) << label;
  }
}

}  // namespace
}  // namespace heed::lab
