// Tables and arrays that a study reads.
#include <algorithm>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include <fmt/core.h>

#include "heed/error.h"
#include "lab/series/csv_table.h"
#include "lab/series/data.h"
#include "lab/series/npy_file.h"
#include "tests/fuzz/readers/reader.h"

namespace heed::fuzz {
namespace {

using namespace lab;  // NOLINT(google-build-using-namespace): what is read here is the laboratory's

// A table in pieces must be the whole one.
void ReadInPieces(const std::string& bytes, const CsvTable& whole) {
  constexpr std::size_t kPiece = 24;
  std::size_t at = 0;
  CsvBlocks blocks("data.csv", [&](std::string& to) {
    to += bytes.substr(at, kPiece);
    at = std::min(at + kPiece, bytes.size());
    return at < bytes.size();
  });
  int64_t rows = 0;
  while (const std::optional<CsvTable> part = blocks.Next()) {
    // The form is guessed from the first rows, of which a piece may have fewer.
    if (part->form().separator != whole.form().separator || part->columns() != whole.columns()) return;
    for (int64_t row = 0; row < part->rows(); ++row, ++rows) {
      Require(rows < whole.rows() && part->Line(row) == whole.Line(rows), "a table in pieces has other rows");
      for (int64_t c = 0; c < std::ssize(whole.columns()); ++c)
        Require(part->Cell(row, c) == whole.Cell(rows, c), "a table in pieces has another cell");
    }
  }
  Require(rows == whole.rows(), "a table in pieces has fewer rows");
}

// And the parts of its sequences. One way of reading may refuse what another takes.
void ReadSeries(const std::string& path, const SeriesColumns& columns) {
  Refuses([&] { SplitOf(ReadSeriesCsv(path, columns), 0.2); });
}

void ReadCsv(std::string_view bytes) {
  const std::string path = WriteAt("data.csv", bytes);
  ReadSeries(path, {.target = "y", .sequence = "s", .time = "t"});
  ReadSeries(path, {.target = "y", .time = "t", .goal = "forecast"});
  ReadSeries(path, {.target = "y", .part = "p", .categories = {"x"}});
  ReadSeries(path, {.target = "c2", .goal = "regression", .csv = {.separator = {}, .decimal = {}, .header = false}});
  const CsvTable whole("data.csv", std::string(bytes));
  ReadInPieces(std::string(bytes), whole);
}

std::vector<std::string> Tables() {
  std::string labelled = "s,t,x,y\n", dates = "t;x;\"z \"\"n\"\"\";y\r\n", parts = "x\ty\tp\n", numbers;
  for (int row = 0; row < 12; ++row) {
    const char* const part = row < 6 ? "training" : row < 9 ? "validation" : "test";
    labelled += fmt::format("{},{},{}e-1,{}\n", static_cast<char>('a' + row / 3), row, row, row / 3 % 2 == 1 ? "up" : "down");
    dates += fmt::format("2024-03-{:02}T12:30:05Z;{},5;{};-{},25\r\n", row + 1, row, row % 5 == 0 ? "NA" : "true", row);
    parts += fmt::format("{}\t{}.5\t{}\n", row % 2 == 1 ? "red" : "blue", row, part);
    numbers += fmt::format("{},1.{}\n", row, row);
  }
  return {labelled, dates, parts, numbers, "\xEF\xBB\xBF,y,t\n0,1,1949-01\n1,2,1949-02\n2,,Mar 1949\n3,4,1949-04\n"};
}

// Two arrays: an input says in its first byte how many bytes the second has behind the first, in units of 16.
void ReadArrays(std::string_view bytes) {
  if (bytes.empty()) throw InvalidArgument("array: too short");
  const std::size_t second = std::min<std::size_t>(static_cast<unsigned char>(bytes[0]) * std::size_t{16}, bytes.size() - 1);
  const std::string x = WriteAt("X.npy", bytes.substr(1, bytes.size() - 1 - second));
  const std::string y = WriteAt("y.npy", bytes.substr(bytes.size() - second));
  Refuses([&] { SplitOf(second == 0 ? ReadSeriesNpy(x, {}, "forecast") : ReadSeriesNpy(x, y, {}), 0.2); });
  const NpyFile file(x, /*may_lack=*/true);
  const std::vector<double> whole = file.Values();
  if (file.shape().empty()) return;
  const int64_t half = file.shape()[0] / 2;
  std::vector<double> values = file.Rows(0, half), rest = file.Rows(half, file.shape()[0]);
  values.insert(values.end(), rest.begin(), rest.end());
  Require(values.size() == whole.size(), "an array in parts has fewer values");
  if (values.empty()) return;
  // Bit by bit, as NaN is a missing value.
  Require(std::memcmp(values.data(), whole.data(), values.size() * sizeof(double)) == 0, "an array in parts has other values");
}

std::string Npy(char version, const std::string& dictionary, std::string_view values) {
  const std::string header = fmt::format("{{{}}}\n", dictionary);
  std::string bytes = "\x93NUMPY";
  bytes.append({version, '\0', static_cast<char>(header.size()), '\0'});
  if (version > 1) bytes.append(2, '\0');
  return bytes.append(header).append(values);
}

std::vector<std::string> Arrays() {
  const auto array = [](const char* type, const char* shape, std::size_t bytes, char version) {
    const std::string header = fmt::format("'descr': '{}', 'fortran_order': False, 'shape': ({}), ", type, shape);
    return Npy(version, header, std::string(bytes, '\0'));
  };
  const auto labelled = [](std::string x, const std::string& y) {
    x += y;
    return static_cast<char>(y.size() / 16) + x;
  };
  std::string labels = array("<i8", "6,", 48, '\1'), each = array("|u1", "6, 2", 12, '\1');
  labels[labels.size() - 8] = 2;
  for (std::string* y : {&labels, &each}) {  // spaces may stand before a header
    const std::size_t spaces = (16 - y->size() % 16) % 16;
    y->insert(10, spaces, ' ');
    (*y)[8] = static_cast<char>((*y)[8] + static_cast<char>(spaces));
  }
  each.back() = 2;
  const std::string x = array("<f8", "6, 2, 1", 96, '\1');
  return {labelled(x, labels), labelled(x, each), labelled(array("<f4", "6, 3", 72, '\2'), ""),
          labelled(array("|b1", "", 1, '\3'), ""), labelled(array("<u2", "0, 3", 0, '\1'), "")};
}

}  // namespace

const Reader kCsv{"csv", "a table as four commands read it, and in pieces", ReadCsv, Tables};
const Reader kNpy{"npy", "arrays as a study reads them, and in parts", ReadArrays, Arrays};

}  // namespace heed::fuzz
