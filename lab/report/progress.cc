#include "lab/report/progress.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <utility>

#include <sys/ioctl.h>
#include <unistd.h>

#include <fmt/core.h>

namespace heed::lab {
namespace {

constexpr int kBarCells = 24;
constexpr std::chrono::milliseconds kRedraw{100};

// Columns of the terminal behind stderr; a usual width where it does not say.
std::size_t TerminalWidth() {
  winsize size{};
  return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

std::string Bar(double share) {
  const int filled = static_cast<int>(std::lround(std::clamp(share, 0.0, 1.0) * kBarCells));
  return "[" + std::string(filled, '#') + std::string(kBarCells - filled, '.') + "]";
}

// "3/4"; "3" of what has no known end.
std::string Share(int64_t done, int64_t total) {
  return std::to_string(done) + (total == 0 && done > 0 ? "" : "/" + std::to_string(total));
}

}  // namespace

Progress::Progress(std::string what, int64_t total, bool quiet, int64_t already_done)
    : what_(std::move(what)),
      total_(total),
      done_(already_done),
      already_done_(already_done),
      quiet_(quiet),
      terminal_(isatty(STDERR_FILENO) != 0),
      start_(Clock::now()) {
  if (!quiet_ && terminal_) Draw();
}

Progress::~Progress() {
  if (quiet_) return;
  if (terminal_) {
    Draw();
    std::fputc('\n', stderr);
    return;
  }
  std::string line = what_ + ": " + Share(done_, total_) + " in " + FormatDuration(Elapsed());
  if (!note_.empty()) line += ", " + note_;
  std::fprintf(stderr, "%s\n", line.c_str());
}

void Progress::Update(int64_t done, const std::string& note) {
  done_ = done;
  if (!note.empty()) note_ = note;
  if (!quiet_ && terminal_ && Clock::now() - drawn_ >= kRedraw) Draw();
}

double Progress::Elapsed() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }

void Progress::Draw() {
  drawn_ = Clock::now();
  const double share = total_ > 0 ? static_cast<double>(done_) / static_cast<double>(total_) : 1.0;
  std::string line = what_ + " " + (total_ == 0 && done_ > 0 ? "" : Bar(share) + " ") + Share(done_, total_);
  if (done_ >= total_) {
    line += "  " + FormatDuration(Elapsed());
  } else if (done_ > already_done_) {
    line += "  " +
            FormatDuration(Elapsed() / static_cast<double>(done_ - already_done_) * static_cast<double>(total_ - done_)) +
            " left";
  }
  if (!note_.empty()) line += "  " + note_;
  line.resize(std::min(line.size(), TerminalWidth() - 1));
  std::fprintf(stderr, "\r\033[2K%s", line.c_str());
  std::fflush(stderr);
}

std::string Progress::FormatDuration(double seconds) {
  const int64_t total = std::max<int64_t>(0, std::llround(seconds));
  if (total < 60) return fmt::format("{} s", total);
  if (total < 3600) return fmt::format("{} min {:02} s", total / 60, total % 60);
  return fmt::format("{} h {:02} min", total / 3600, total % 3600 / 60);
}

}  // namespace heed::lab
