#include "bench/study/replay.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iterator>
#include <map>
#include <utility>

#include "heed/error.h"
#include "lab/data/random.h"
#include "lab/training/interrupt.h"

namespace heed::bench {
namespace {

// In order where nothing is to be drawn.
std::vector<std::size_t> Draw(std::size_t count, lab::Random* random) {
  std::vector<std::size_t> drawn(count);
  for (std::size_t i = 0; i < count; ++i) drawn[i] = random == nullptr ? i : random->Below(count);
  return drawn;
}

// 0 .. count - 1 in an order drawn by the seed.
std::vector<std::size_t> Ordered(std::size_t count, uint64_t seed) {
  lab::Random random(seed);
  std::vector<std::size_t> order = Draw(count, nullptr);
  for (std::size_t i = count; i > 1; --i) std::swap(order[i - 1], order[random.Below(i)]);
  return order;
}

std::vector<double> At(const std::vector<double>& values, const std::vector<std::size_t>& places) {
  std::vector<double> chosen;
  chosen.reserve(places.size());
  for (const std::size_t place : places) chosen.push_back(values[place]);
  return chosen;
}

double Mean(const std::vector<double>& values, const std::vector<double>& weights) {
  double sum = 0, weight = 0;
  for (std::size_t i = 0; i < values.size(); ++i) sum += weights[i] * values[i], weight += weights[i];
  return sum / weight;
}

int64_t Length(const RecordedRun& run) { return run.curve.empty() ? 0 : run.curve.back().steps; }

// The best state after so many steps; of a run that stands in for another, the next one or the last.
std::map<int64_t, RecordedBest>::const_iterator StateAt(const RecordedRun& run, int64_t steps) {
  const auto state = run.best.lower_bound(steps);
  return state == run.best.end() ? std::prev(state) : state;
}

// The same; where it was not measured on the test part, the next one that was.
const RecordedBest& Measured(const RecordedRun& run, int64_t steps) {
  auto best = StateAt(run, steps);
  while (best->second.blocks.empty() && std::next(best) != run.best.end()) ++best;
  return best->second;
}

// A course, point by point as lab::Course has it.
class RecordedTraining : public lab::Training {
 public:
  // `longest`: a run that stands in where `run` ends.
  RecordedTraining(const RecordedContest& contest, const RecordedRun& run, const RecordedRun& longest, int64_t whole,
                   const std::vector<std::size_t>& validation)
      : contest_(contest), run_(&run), longest_(&longest), whole_(whole), validation_(validation) {}

  lab::Outcome Reach(int64_t steps, const lab::OnStep& on_step) override {
    if (steps > Length(*run_) && run_->diverged.empty() && Length(*longest_) > Length(*run_)) run_ = longest_;
    // Of a small budget the first look comes before the first point on record, which stands in.
    while (!ended_ && (reached_ < steps || curve_.empty())) Next();
    if (curve_.empty()) throw lab::Divergence(run_->diverged);
    return OnItsWay();
  }

  lab::Outcome Report() override {
    lab::Outcome outcome = OnItsWay();
    const RecordedBest& best = Measured(*run_, outcome.best_steps);
    outcome.blocks = contest_.Drawn(best.blocks);
    outcome.values = best.values;
    outcome.values.front() = Mean(outcome.blocks, contest_.weights);
    return outcome;
  }
  void Keep(const std::filesystem::path& path) override {
    throw InvalidArgument("path: " + path.string() + ": a recorded training has no weights");
  }

 private:
  void Next() {
    reached_ = lab::PointAfter(reached_, whole_);
    const auto point = std::ranges::find(run_->curve, reached_, &lab::CurvePoint::steps);
    if (point == run_->curve.end()) {
      ended_ = run_->curve.empty() || reached_ > run_->curve.front().steps;
      return;
    }
    curve_.push_back(*point);
    if (curve_.back().validation < curve_[best_].validation) best_ = curve_.size() - 1;
    ended_ = lab::PastItsBest(curve_, best_, whole_);
  }

  lab::Outcome OnItsWay() const {
    const lab::CurvePoint& best = curve_[best_];
    return {.values = {best.validation},
            .validation = At(StateAt(*run_, best.steps)->second.validation, validation_),
            .curve = curve_,
            .best_steps = best.steps};
  }

  const RecordedContest& contest_;
  const RecordedRun* run_;
  const RecordedRun* longest_;
  int64_t whole_, reached_ = 0;
  bool ended_ = false;
  std::vector<lab::CurvePoint> curve_;
  std::size_t best_ = 0;
  const std::vector<std::size_t>& validation_;
};

std::vector<const RecordedRun*> RunsOf(const Record& record, const std::string& model) {
  std::vector<const RecordedRun*> runs;
  for (const RecordedRun& run : record.runs) {
    if (run.model == model) runs.push_back(&run);
  }
  return runs;
}

// The rate with the longest run.
double LongestRate(const std::vector<const RecordedRun*>& runs) {
  return (*std::ranges::max_element(runs, {}, [](const RecordedRun* run) { return Length(*run); }))->rate;
}

}  // namespace

RecordedContest::RecordedContest(const Record& record, std::optional<uint64_t> seed) : record_(record), seed_(seed) {
  lab::Random random(seed.value_or(0));
  lab::Random* draws = seed ? &random : nullptr;
  blocks_ = Draw(record.weights.size(), draws), validation_blocks_ = Draw(record.validation_weights.size(), draws);
  id = record.id, columns = record.columns, settings = nlohmann::ordered_json::object();
  for (const RecordedModel& one : record.models) models.push_back(one.model);
  simple_loss = record.simple_loss;
  weights = At(record.weights, blocks_), validation_weights = At(record.validation_weights, validation_blocks_);
}

std::unique_ptr<lab::Training> RecordedContest::Begin(const lab::Trial& trial) const {
  const std::vector<const RecordedRun*> runs = RunsOf(record_, trial.model.Id());
  const double longest_rate = LongestRate(runs);
  std::vector<const RecordedRun*> own, longest;
  for (const RecordedRun* run : runs) {
    if (run->rate == trial.rate) own.push_back(run);
    if (run->rate == longest_rate) longest.push_back(run);
  }
  const std::size_t model = std::ranges::find(models, trial.model.Id(), &lab::Contender::Id) - models.begin();
  const std::size_t drawn = seed_ ? Ordered(own.size(), *seed_ * 7919 + model)[trial.seed % own.size()] : trial.seed;
  return std::make_unique<RecordedTraining>(*this, *own.at(drawn), *longest.at(drawn), trial.steps, validation_blocks_);
}

double RecordedContest::StepSeconds(const lab::SizedContender& model) const {
  const auto one =
      std::ranges::find_if(record_.models, [&](const RecordedModel& recorded) { return recorded.model.Id() == model.Id(); });
  return record_.seconds / static_cast<double>(one->steps);
}

std::vector<double> RecordedContest::Drawn(const std::vector<double>& blocks) const { return At(blocks, blocks_); }

std::vector<double> TruthOf(const Record& record, double share) {
  std::vector<double> truth;
  for (const RecordedModel& one : record.models) {
    const std::vector<const RecordedRun*> runs = RunsOf(record, one.model.Id());
    const double rate = LongestRate(runs);
    double sum = 0, count = 0;
    for (const RecordedRun* run : runs) {
      if (run->rate != rate) continue;
      const lab::CurvePoint* best = nullptr;
      for (const lab::CurvePoint& point : run->curve) {
        const bool within = static_cast<double>(point.steps) <= share * static_cast<double>(one.steps) + 1;
        if (within && (best == nullptr || point.validation < best->validation)) best = &point;
      }
      if (best == nullptr) continue;
      sum += Mean(Measured(*run, best->steps).blocks, record.weights), ++count;
    }
    truth.push_back(sum / count);
  }
  return truth;
}

}  // namespace heed::bench
