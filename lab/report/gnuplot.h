// The gnuplot program (5.2 or later), run as a child process. Internal to lab/report.
#ifndef HEED_LAB_REPORT_GNUPLOT_H_
#define HEED_LAB_REPORT_GNUPLOT_H_

#include <string>
#include <string_view>

namespace heed::lab {

// `text` as a gnuplot string literal. Labels of tics are formats as well: double their '%' with GnuplotTicLabel.
std::string GnuplotString(std::string_view text);
std::string GnuplotTicLabel(std::string_view text);

// The command that labels an axis ("x" or "y").
std::string GnuplotLabel(const char* axis, std::string_view text);

// A number that gnuplot reads; what is not finite becomes NaN, which GnuplotHeader declares as missing.
std::string GnuplotNumber(double value);

// Terminal, fonts, grid and border that all plots share.
std::string GnuplotHeader(int width, int height);

// Runs a script that draws one picture and returns the SVG it printed, entitled `title`. No shell is involved and no settings
// of the user are read. Throws FileError with gnuplot's own message, or saying that gnuplot is missing.
std::string RunGnuplot(const std::string& script, std::string_view title);

}  // namespace heed::lab

#endif  // HEED_LAB_REPORT_GNUPLOT_H_
