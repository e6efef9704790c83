// Progress of long work, on a terminal only.
#ifndef HEED_LAB_REPORT_PROGRESS_H_
#define HEED_LAB_REPORT_PROGRESS_H_

#include <chrono>
#include <cstdint>
#include <string>

namespace heed::lab {

// One line on stderr, redrawn in place at most ten times a second: what, a bar, done/total, time left and a note. Where
// stderr is not a terminal, one plain line at the end and none in between; nothing at all when quiet.
class Progress {
 public:
  // already_done: work that was done before the clock started, as in a resumed run.
  Progress(std::string what, int64_t total, bool quiet = false, int64_t already_done = 0);
  ~Progress();  // ends the line
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void Update(int64_t done, const std::string& note = {});

  static std::string FormatDuration(double seconds);  // "7 s", "2 min 05 s", "1 h 03 min"

 private:
  using Clock = std::chrono::steady_clock;
  std::string what_, note_;
  int64_t total_, done_, already_done_;
  bool quiet_, terminal_;
  Clock::time_point start_, drawn_;
  void Draw();
  double Elapsed() const;  // seconds
};

}  // namespace heed::lab

#endif  // HEED_LAB_REPORT_PROGRESS_H_
