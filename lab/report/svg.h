// The drawings, and what they share: text, colours and ticks of a figure as SVG and in scripts of gnuplot. Internal to
// lab/report.
#ifndef HEED_LAB_REPORT_SVG_H_
#define HEED_LAB_REPORT_SVG_H_

#include <string>
#include <string_view>
#include <vector>

#include "lab/report/figure.h"

namespace heed::lab {

inline constexpr int kFontSize = 13;       // pixels, all text in figures
inline constexpr char kInk[] = "#333333";  // text and axes
inline constexpr char kBackground[] = "#ffffff";

// Printable, but for control characters, line ends among them, which become spaces: XML 1.0 cannot hold them.
std::string OneLine(std::string_view text);

// The same, safe as text and as a quoted attribute of XML and HTML.
std::string EscapeMarkup(std::string_view text);

// A number as attributes and ticks want it: at most two decimals, no trailing zeros.
std::string Pixels(double value);

// Characters as a reader counts them, not bytes.
int CountCharacters(std::string_view utf8);

// Pixels that a line of text takes at most in the usual sans-serif fonts, estimated from the kinds of its characters.
double TextWidth(std::string_view utf8);

struct Ticks {
  std::vector<double> values;
  std::vector<std::string> labels;
};

// Round numbers (1, 2 or 5 times a power of ten apart) within [low, high], about `count` of them. Needs low < high.
Ticks RoundTicks(double low, double high, int count);

// The same at whole numbers within [0, size - 1].
Ticks IndexTicks(int64_t size, int count);

enum class Anchor { kStart, kMiddle, kEnd };

// One line of text whose vertical middle is at y.
std::string SvgText(double x, double y, Anchor anchor, std::string_view text);

// The same, turned to read upwards.
std::string SvgTextUpwards(double x, double y, std::string_view text);

// A whole drawing of the given size on the light background. `title` is what a screen reader says.
std::string SvgDocument(int width, int height, std::string_view title, std::string_view body);

// Places as near as can be to those wanted (least squares), in their order, at least `gap` apart and within [low, high], which
// must hold them all.
std::vector<double> SpreadApart(const std::vector<double>& wanted, double gap, double low, double high);

// Whole SVG documents, one function a kind of picture; WriteFigure calls them.
std::string Draw(const Figure& figure, const LinePlot& plot);   // by gnuplot
std::string Draw(const Figure& figure, const BarChart& chart);  // by gnuplot
std::string Draw(const Figure& figure, const HeatMap& map);
std::string Draw(const Figure& figure, const Diagram& diagram);

// `text` as a gnuplot string literal. Labels of tics are formats as well: double their '%' with GnuplotTicLabel.
std::string GnuplotString(std::string_view text);
std::string GnuplotTicLabel(std::string_view text);

// The command that labels an axis ("x" or "y").
std::string GnuplotLabel(const char* axis, std::string_view text);

// A number that gnuplot reads; what is not finite becomes NaN, which GnuplotHeader declares as missing.
std::string GnuplotNumber(double value);

// Terminal, fonts, grid and border that all plots share.
std::string GnuplotHeader(int width, int height);

// Runs a script of the gnuplot program, 5.2 or later, that draws one picture and returns the SVG it printed, entitled `title`.
// No shell is involved and no settings of the user are read. Throws FileError with gnuplot's own message, or saying that
// gnuplot is missing.
std::string RunGnuplot(const std::string& script, std::string_view title);

}  // namespace heed::lab

#endif  // HEED_LAB_REPORT_SVG_H_
