#include "lab/series/data.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>
#include <string>

#include "heed/error.h"
#include "heed/safetensors.h"
#include "lab/data/random.h"

namespace heed::lab {
namespace {

constexpr uint64_t kSplitSeed = 314159;  // any fixed number: all runs are measured on the same sequences
constexpr std::size_t kLeast = 3;        // of a class that is in all parts
constexpr int64_t kLeastSteps = 100;     // of recordings that are cut in time: the test part then has 20

bool IsWholeNumber(const std::string& name) { return name.find_first_not_of("+-.0123456789") == std::string::npos; }

// Behind a refusal of classes, where they may be none.
std::string WholeNumbersWereClasses(const SeriesData& data) {
  const bool whole = data.Classifies() && std::ranges::all_of(data.classes, IsWholeNumber);
  return whole ? "; its whole numbers were taken for classes: --goal regression takes them for numbers, and --goal forecast "
                 "predicts "
                 "the next ones"
               : "";
}

int64_t CommonestClass(const SeriesSequence& sequence) {
  std::map<int64_t, int64_t> counts;
  for (const double target : sequence.targets) ++counts[static_cast<int64_t>(target)];
  const auto less = [](const auto& a, const auto& b) { return a.second < b.second; };
  return std::max_element(counts.begin(), counts.end(), less)->first;
}

// Sequences that are drawn together; those of rare classes are the last.
std::vector<std::vector<int64_t>> Strata(const SeriesData& data) {
  std::map<int64_t, std::vector<int64_t>> by_class;
  for (int64_t i = 0; i < std::ssize(data.sequences); ++i) {
    by_class[data.Classifies() ? CommonestClass(data.sequences[i]) : 0].push_back(i);
  }
  std::vector<std::vector<int64_t>> strata;
  std::vector<int64_t> rare;
  for (auto& [index, members] : by_class) {
    if (members.size() >= kLeast) {
      strata.push_back(std::move(members));
    } else {
      rare.insert(rare.end(), members.begin(), members.end());
    }
  }
  strata.push_back(std::move(rare));
  return strata;
}

void Deal(std::vector<int64_t> members, double share, Random& random, std::vector<StepParts>& parts) {
  const int64_t count = std::ssize(members);
  for (int64_t i = count - 1; i > 0; --i) std::swap(members[i], members[static_cast<int64_t>(random.Below(i + 1))]);
  // Two rare sequences cannot be in three parts: both train.
  const int64_t most = (count - 1) / 2, wanted = std::llround(share * static_cast<double>(count));
  const int64_t each = std::min(most, std::max<int64_t>(1, wanted));
  for (int64_t i = 0; i < 2 * each; ++i) {
    parts[members[i]].training_end = 0;
    if (i < each) parts[members[i]].validation_end = 0;
  }
}

// One or two sequences whose steps have targets of their own.
bool AreRecordings(const SeriesData& data) {
  return !data.Forecasts() && data.each_step && data.sequences.size() < kLeast && data.Steps() >= kLeastSteps;
}

// A class that no training part holds is one that no model can learn.
void RequireTrainedClasses(const SeriesData& data, const std::vector<StepParts>& parts) {
  std::set<double> trained;
  for (std::size_t s = 0; s < parts.size(); ++s)
    trained.insert(data.sequences[s].targets.begin(), data.sequences[s].targets.begin() + parts[s].training_end);
  for (const SeriesSequence& sequence : data.sequences) {
    const auto found = std::ranges::find_if(sequence.targets, [&](double target) { return !trained.contains(target); });
    if (found == sequence.targets.end()) continue;
    const int64_t step = found - sequence.targets.begin();
    throw FileError(data.Place(sequence, step, data.target) + "class '" +
                    ShownName(data.classes[static_cast<std::size_t>(*found)]) +
                    "' does not occur in the first part of the recording, which trains; where rows are in order of their class "
                    "rather than of time, shuffle them, or name pieces of the recording in a column for --sequence" +
                    WholeNumbersWereClasses(data));
  }
}

}  // namespace

SeriesSequence SeriesSequence::Part(int64_t begin, int64_t end, int64_t numbers) const {
  const auto part = [&](const auto& of, int64_t each) {
    return of.empty() ? of : std::vector(of.begin() + begin * each, of.begin() + end * each);
  };
  return {id,
          end - begin,
          part(features, numbers),
          part(times, 1),
          std::ssize(targets) == steps ? part(targets, 1) : targets,
          part(rows, 1)};
}

int64_t SeriesData::Longest() const {
  int64_t longest = 0;
  for (const SeriesSequence& sequence : sequences) longest = std::max(longest, sequence.steps);
  return longest;
}

int64_t SeriesData::TargetFeature() const {
  const auto found = std::ranges::find(features, target);
  return !Forecasts() || found == features.end() ? -1 : found - features.begin();
}

void SeriesData::CarryForward(SeriesSequence& sequence, const double* before) const {
  const int64_t target_feature = TargetFeature(), each = numbers();
  for (int64_t step = 0; step < sequence.steps; ++step) {
    double* const values = &sequence.features[step * each];
    for (int64_t f = 0; f < std::ssize(features); ++f) {
      if (std::isnan(values[f]) && before != nullptr) values[f] = before[f];
    }
    if (target_feature >= 0 && !sequence.targets.empty()) sequence.targets[step] = values[target_feature];
    before = values;
  }
}

std::string SeriesData::Place(const SeriesSequence& sequence, int64_t step, const std::string& column) const {
  if (sequence.rows.empty()) {
    return name + ": sequence " + sequence.id + ", step " + std::to_string(step) + ", '" + ShownName(column) + "': ";
  }
  return name + ": row " + std::to_string(sequence.rows[step]) + ", column '" + ShownName(column) + "': ";
}

int64_t SeriesData::Steps() const {
  return std::accumulate(sequences.begin(), sequences.end(), int64_t{0},
                         [](int64_t sum, const SeriesSequence& sequence) { return sum + sequence.steps; });
}

bool CutsSequences(const SeriesData& data) {
  const auto cut = [](const SeriesSequence& one) {
    if (!one.parts) return false;
    const auto [training, validation] = *one.parts;
    return (training > 0 && training < one.steps) || (validation > training && validation < one.steps);
  };
  const bool given = !data.sequences.empty() && data.sequences.front().parts.has_value();
  return data.Forecasts() || (given ? std::ranges::any_of(data.sequences, cut) : AreRecordings(data));
}

std::vector<SeriesWindow> EvenlySpread(std::vector<SeriesWindow> windows, int64_t most) {
  const int64_t count = std::ssize(windows), kept = std::min(most, count);
  for (int64_t i = 0; i < kept; ++i) windows[i] = windows[i * count / kept];
  windows.resize(kept);
  return windows;
}

std::vector<StepParts> SplitSequences(const SeriesData& data, double share) {
  if (data.sequences.size() < kLeast) {
    const std::string whole = WholeNumbersWereClasses(data);
    throw InvalidArgument("sequence: " + data.name + " has " + std::to_string(data.sequences.size()) + " sequence(s); a " +
                          data.goal + " needs at least 3, to train, to validate and to test, or " +
                          std::to_string(kLeastSteps) +
                          " steps with targets of their own: --sequence names the column that tells sequences apart" +
                          (data.goal == "regression"
                               ? "; or --goal forecast predicts the next values of '" + ShownName(data.target) + "' within one"
                               : whole));
  }
  std::vector<StepParts> parts;
  for (const SeriesSequence& one : data.sequences) parts.push_back({one.steps, one.steps});
  Random random(kSplitSeed);
  for (const std::vector<int64_t>& members : Strata(data)) Deal(members, share, random, parts);
  return parts;
}

std::vector<StepParts> SplitByDate(const SeriesData& data, double share) {
  std::vector<double> times;
  for (const SeriesSequence& one : data.sequences) times.insert(times.end(), one.times.begin(), one.times.end());
  if (!data.has_dates || times.empty()) return {};
  const auto held_out = [&](double of) {
    const int64_t count = std::ssize(times), held = std::llround(of * static_cast<double>(count));
    const int64_t first = std::min(count - held, count - 1);
    std::ranges::nth_element(times, times.begin() + first);
    return times[first];
  };
  const double validation = held_out(2 * share), test = held_out(share);
  std::vector<StepParts> parts;
  int64_t cut = 0;
  for (const SeriesSequence& one : data.sequences) {
    const auto before = [&](double time) { return int64_t{std::ranges::lower_bound(one.times, time) - one.times.begin()}; };
    parts.push_back({before(validation), before(test)});
    cut += parts.back().training_end > 0 && parts.back().validation_end < one.steps ? 1 : 0;
  }
  if (2 * cut <= std::ssize(parts)) parts.clear();
  return parts;
}

std::vector<StepParts> SplitOf(const SeriesData& data, double share) {
  std::vector<StepParts> parts;
  parts.reserve(data.sequences.size());
  const bool given = !data.sequences.empty() && data.sequences.front().parts.has_value();
  if (!given && data.Forecasts() && data.sequences.size() > 1) parts = SplitByDate(data, share);
  if (!parts.empty()) return parts;
  if (!given && !CutsSequences(data)) return SplitSequences(data, share);
  for (const SeriesSequence& one : data.sequences) parts.push_back(given ? *one.parts : SplitSteps(one.steps, share));
  if (!given && data.Classifies()) RequireTrainedClasses(data, parts);
  return parts;
}

StepParts SplitSteps(int64_t steps, double share) {
  const int64_t each = std::max<int64_t>(1, std::llround(share * static_cast<double>(steps)));
  return {std::max<int64_t>(0, steps - 2 * each), std::max<int64_t>(0, steps - each)};
}

}  // namespace heed::lab
