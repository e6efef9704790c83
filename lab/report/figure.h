// A figure is data first: its numbers go to CSV (and NPY for matrices), its picture is drawn from them.
#ifndef HEED_LAB_REPORT_FIGURE_H_
#define HEED_LAB_REPORT_FIGURE_H_

#include <cstdint>
#include <filesystem>
#include <string>
#include <type_traits>
#include <variant>
#include <vector>

namespace heed::lab {

struct Series {
  std::string name;  // legend
  std::vector<double> x, y;
  std::vector<double> low, high;  // spread around y, empty when there is none
};

struct LinePlot {
  std::string x_label, y_label;
  bool log_x = false, log_y = false;
  std::vector<Series> series;
};

struct HeatMap {
  std::string x_label, y_label;
  int64_t rows = 0, columns = 0;
  std::vector<double> values;  // row-major [rows, columns]
};

struct BarChart {
  struct Bar {
    std::string name;
    double value, low, high;  // spread around it, both the value itself when there is none
    int group = 0;            // bars of one group share a colour, -1 is grey
  };
  std::string y_label;
  std::vector<Bar> bars;
  // Dots instead of bars, on an axis that begins where the numbers do: for differences that are small beside what they are
  // differences of.
  bool dots = false;
};

// Nodes in rows (layer 0 at the bottom), a unit apart, and arrows between them, arcs over what stands between two nodes of one
// row; for drawings of how encoders connect tokens.
struct Diagram {
  struct Node {
    double x, y;
    std::string label;
  };
  struct Arrow {
    int from, to;
  };
  std::vector<Node> nodes;
  std::vector<Arrow> arrows;
};

struct Figure {
  std::string name;  // file stem: letters, digits, '-'
  std::string title;
  std::string caption;          // what to see
  std::string command;          // how it was made
  std::string options_in = {};  // a file beside the page that holds the command with all options; empty: it has them here
  std::string seeds = {};       // "seed 0", "seeds 0 to 2"; empty: nothing in it is random
  std::variant<LinePlot, HeatMap, BarChart, Diagram> content;
  int width = 640, height = 400;  // pixels
};

// The figure's numbers as comma-separated values (RFC 4180), with a header line:
//   line plot  series, x label, y label[, low, high]   one line a point
//   heat map   y label, 0, 1, ..                       one line a row
//   bars       name, y label, low, high                one line a bar
//   diagram    kind, index, x, y, label, from, to      one line a node, then one an arrow
// Numbers read back as the same double; those that are not finite are written nan, inf, -inf.
std::string FormatCsv(const Figure& figure);

struct FigureFiles {
  std::filesystem::path svg, csv, npy;  // npy empty unless the content is a heat map
};

// <directory>/<name>.svg, .csv and .npy.
FigureFiles FilesOf(const Figure& figure, const std::filesystem::path& directory);

// Writes them, each beside and renamed, and returns the drawing. Line plots and bars are drawn by gnuplot; when it is
// missing the error says so. Throws FileError.
std::string WriteFigure(const Figure& figure, const std::filesystem::path& directory);

// Throws FileError where there is no gnuplot to draw with: before the work whose results are to be drawn.
void RequireGnuplot();

// The shortest text that reads back as the same double; the one format of numbers in CSV and JSON files.
std::string FormatNumber(double value);

// Comma-separated values (RFC 4180), line by line. Cells that hold a comma, a quote or the end of a line are quoted; numbers
// read back as the same (FormatNumber).
class CsvText {
 public:
  void Line(const std::vector<std::string>& cells);
  template <class... Cells>
  void Row(const Cells&... cells) {
    Line({Cell(cells)...});
  }

  const std::string& text() const { return text_; }

  static std::string Cell(const std::string& text) { return text; }
  template <class Number>
    requires std::is_arithmetic_v<Number>
  static std::string Cell(Number number) {
    if constexpr (std::is_integral_v<Number>) {
      return std::to_string(number);
    } else {
      return FormatNumber(number);
    }
  }

 private:
  std::string text_;
};

// What precedes the values, in C order, of a .npy file (version 1.0, NumPy Enhancement Proposal 1). type: "f4" or "f8", in this
// machine's byte order.
std::string NpyHeader(const std::string& type, const std::vector<int64_t>& shape);

// The bytes of a .npy file: float64, C order, shape (rows, columns). `values` has rows * columns entries.
std::string FormatNpy(int64_t rows, int64_t columns, const std::vector<double>& values);

}  // namespace heed::lab

#endif  // HEED_LAB_REPORT_FIGURE_H_
