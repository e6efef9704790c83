#include "bench/suites/measurement.h"

#include <malloc.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <future>
#include <limits>
#include <string>

namespace heed::lab {
namespace {

double Median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// A line of /proc/self/status in MiB; NaN where there is none.
double StatusMib(const std::string& field) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with(field + ":")) return std::stod(line.substr(field.size() + 1)) / 1024.0;
  return std::numeric_limits<double>::quiet_NaN();
}

constexpr std::chrono::milliseconds kShortTurns{5};

// glibc keeps freed blocks of up to 32 MiB for the next call: right for timing, wrong for seeing what one call needs.
constexpr int kKeepBytes = 32 << 20, kReturnBytes = 64 << 10;

// malloc_trim leaves the end of a thread's arena as it is, and the next thread gets the arena with the pages in it: blocks
// from that end, when they are freed, make glibc return what is above the threshold.
void TrimArena() {
  std::array<void*, 4> blocks{};
  for (void*& block : blocks) block = std::malloc(kReturnBytes);
  for (void* block : blocks) std::free(block);
}

}  // namespace

double SecondsOf(const std::function<void()>& call) {
  using Clock = std::chrono::steady_clock;
  const auto before = Clock::now();
  call();
  return std::chrono::duration<double>(Clock::now() - before).count();
}

std::vector<Timing> TimeInTurn(const std::vector<std::function<void()>>& candidates, int rounds, double seconds,
                               std::size_t short_ones) {
  using Clock = std::chrono::steady_clock;
  mallopt(M_MMAP_THRESHOLD, kKeepBytes);
  mallopt(M_TRIM_THRESHOLD, 2 * kKeepBytes);
  std::vector<std::vector<double>> samples(candidates.size());
  for (const auto& candidate : candidates) candidate();
  const auto start = Clock::now();
  const auto sample = [&](std::size_t c) { samples[c].push_back(SecondsOf(candidates[c])); };
  for (int round = 0; round < rounds || Clock::now() - start < std::chrono::duration<double>(seconds); ++round) {
    const auto begin = Clock::now();
    do {
      for (std::size_t c = 0; c < short_ones; ++c) sample(c);
    } while (short_ones > 0 && Clock::now() - begin < kShortTurns);
    for (std::size_t c = short_ones; c < candidates.size(); ++c) sample(c);
  }
  std::vector<Timing> timings;
  timings.reserve(samples.size());
  for (const auto& times : samples) timings.push_back({*std::min_element(times.begin(), times.end()), Median(times)});
  return timings;
}

bool ForgetPeakResident() {
  std::ofstream marks("/proc/self/clear_refs");
  marks << "5" << std::flush;  // resets the high-water mark to what is resident now
  return static_cast<bool>(marks);
}

double PeakResident() { return StatusMib("VmHWM"); }

double PeakGrowth(const std::function<void()>& call) {
  mallopt(M_MMAP_THRESHOLD, kReturnBytes);
  mallopt(M_TRIM_THRESHOLD, kReturnBytes);
  const auto on_new_thread = [&call](bool first) {
    std::async(std::launch::async, [&] {
      call();
      if (first) TrimArena();
    }).get();
  };
  on_new_thread(true);
  malloc_trim(0);
  const bool told = ForgetPeakResident();
  const double before = StatusMib("VmRSS");
  on_new_thread(false);
  const double peak = StatusMib("VmHWM");
  return told ? std::max(peak - before, 0.0) : std::numeric_limits<double>::quiet_NaN();
}

}  // namespace heed::lab
