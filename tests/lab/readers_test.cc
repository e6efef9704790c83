// Files of others, damaged in a thousand ways: each is read or refused by one of heed's own errors, within a moment and, under
// the sanitizers, without an access outside its memory.
#include <algorithm>
#include <fstream>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "heed/error.h"
#include "lab/data/text.h"
#include "lab/report/figure.h"
#include "lab/report/file.h"
#include "lab/series/csv_table.h"
#include "lab/series/data.h"
#include "lab/series/npy_file.h"
#include "lab/training/run_folder.h"
#include "tests/scratch_folder.h"

namespace heed::lab {
namespace {

using Damage = std::mt19937_64;

// What breaks readers: ends of numbers, separators, quotes, marks of encodings.
const std::vector<std::string> kPieces{std::string(1, '\0'),
                                       "\n",
                                       "\r\n",
                                       ",",
                                       ",,",
                                       "\"",
                                       "\"\"",
                                       "'",
                                       "{",
                                       "}",
                                       "[",
                                       "]",
                                       ":",
                                       "null",
                                       "true",
                                       "-1",
                                       "1e999",
                                       "1e-999",
                                       "9223372036854775808",
                                       "-9223372036854775809",
                                       "4294967296",
                                       "nan",
                                       "inf",
                                       "0x1p3",
                                       "\xEF\xBB\xBF",
                                       "\xFF\xFE",
                                       "\xC0\x80",
                                       "\xED\xA0\x80",
                                       "\\u0000",
                                       "(",
                                       ")",
                                       "9999999999999999999999999999",
                                       "\x93NUMPY",
                                       "<f8",
                                       "|O",
                                       "\t",
                                       " "};

std::string Damaged(std::string bytes, Damage& random) {
  const auto place = [&] { return static_cast<std::size_t>(random() % (bytes.size() + 1)); };
  for (uint64_t edits = 1 + random() % 4; edits > 0; --edits) {
    const std::size_t at = place(), length = std::min<std::size_t>(random() % 40, bytes.size() - at);
    switch (random() % 6) {
      case 0:
        if (at < bytes.size()) bytes[at] = static_cast<char>(random());
        break;
      case 1:
        bytes.insert(at, kPieces[random() % kPieces.size()]);
        break;
      case 2:
        bytes.replace(at, length, kPieces[random() % kPieces.size()]);
        break;
      case 3:
        bytes.erase(at, length);
        break;
      case 4:
        bytes.insert(place(), std::string(bytes, at, length));
        break;
      default:
        if (random() % 4 == 0) bytes.resize(at);
    }
  }
  return bytes;
}

// Reads `whole`, which must work, and then damaged copies of it.
void Attack(const std::string& whole, const std::function<void(const std::string&)>& read) {
  ASSERT_NO_THROW(read(whole));
  Damage random(1);
  int refused = 0;
  for (int trial = 0; trial < 1500; ++trial) {
    const std::string bytes = Damaged(whole, random);
    try {
      read(bytes);
    } catch (const Error&) {
      ++refused;
    } catch (const std::exception& error) {
      ADD_FAILURE() << "not an error of heed's: " << error.what() << "\n" << bytes;
    }
  }
  EXPECT_GT(refused, 100);
}

std::string Read(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(DamagedFiles, Texts) {
  const ScratchFolder scratch;
  const std::filesystem::path path = scratch.path() / "text";
  Attack("Grüße, 世界 \xF0\x9F\x98\x80\nsecond line\n", [&](const std::string& bytes) {
    WriteBytes(path, bytes);
    ReadText(path.string());
  });
}

TEST(DamagedFiles, Tables) {
  const ScratchFolder scratch;
  const std::filesystem::path path = scratch.path() / "data.csv";
  std::string table = "who,when,x,\"a \"\"name\"\"\",y\n";
  for (int row = 0; row < 12; ++row)
    table += std::string(row < 6 ? "a," : "b,") + std::to_string(row) + ",0.5,-1e3," + (row % 2 ? "up\n" : "down\n");
  Attack(table, [&](const std::string& bytes) {
    WriteBytes(path, bytes);
    ReadSeriesCsv(path, {.target = "y", .sequence = "who", .time = "when", .features = {}, .goal = ""});
  });
}

TEST(DamagedFiles, Arrays) {
  std::string header = "{'descr': '<f8', 'fortran_order': False, 'shape': (2, 3), }";
  header.resize(128 - 10 - 1, ' ');
  const std::vector<double> values{1, 2, 3, 4, 5, 6};
  const std::string whole = std::string("\x93NUMPY\x01\x00", 8) + std::string{static_cast<char>(header.size() + 1), '\0'} +
                            header + "\n" + std::string(reinterpret_cast<const char*>(values.data()), 48);
  const ScratchFolder scratch;
  const std::filesystem::path path = scratch.path() / "x.npy";
  Attack(whole, [&](const std::string& bytes) {
    WriteBytes(path, bytes);
    NpyFile(path).Values();
  });
}

TEST(DamagedFiles, Runs) {
  const ScratchFolder scratch;
  const RunFolder folder(scratch.path() / "run");
  RunConfig config;
  config.vocabulary = Vocabulary(U"\n \"\\a\u00e9\U0001f600");
  config.text = {"sample", 1800, "0123456789abcdef"};
  folder.WriteConfig(config);
  folder.WriteMetrics(std::vector<Metrics>(3));
  Attack(Read(folder.config()), [&](const std::string& bytes) {
    WriteBytes(folder.config(), bytes);
    folder.ReadConfig();
  });
  Attack(Read(folder.metrics()), [&](const std::string& bytes) {
    WriteBytes(folder.metrics(), bytes);
    folder.ReadMetrics(1000);
  });
}

}  // namespace
}  // namespace heed::lab
