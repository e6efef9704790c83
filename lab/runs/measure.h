// The measures of an experiment: meaning, format, and which of two numbers is better.
#ifndef HEED_LAB_RUNS_MEASURE_H_
#define HEED_LAB_RUNS_MEASURE_H_

#include <cstdint>
#include <string>

#include "lab/runs/spread.h"

namespace heed::lab {

struct Measure {
  std::string name;           // in files: "loss"
  std::string label;          // of axes and tables: "Loss (nats per character)"
  std::string phrase = "{}";  // within a sentence, around the number: "a loss of {} nats"
  int digits = 3;             // behind the point,
  bool significant = false;   // or in all, where numbers may have any size
  bool more_is_better = false;
  double unit = 1;  // texts and axes count in this; files hold the numbers as they are

  bool Better(double a, double b) const { return more_is_better ? a > b : a < b; }
  // Of the seed that fares worst, and of the one that fares best.
  double Worst(const Spread& spread) const { return more_is_better ? spread.low : spread.high; }
  double Best(const Spread& spread) const { return more_is_better ? spread.high : spread.low; }

  std::string Text(double value) const;          // "1.930"
  std::string Text(const Spread& spread) const;  // where seeds show a difference "1.930 (1.920 to 1.940)"
  std::string Cell(const Spread& spread) const;  // the same for a table: "1.930 (1.920–1.940)"
  std::string Phrase(const Spread& spread) const;
};

// A number that every run of a part of an experiment yields.
struct Column {
  Measure measure;
  int64_t at = 0;         // a length or a step, where the measure is taken at several; else 0
  bool optional = false;  // whether a model may have no number here: its table ends, it diverged

  bool operator==(const Column& other) const { return measure.name == other.measure.name && at == other.at; }
};

}  // namespace heed::lab

#endif  // HEED_LAB_RUNS_MEASURE_H_
