#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <optional>
#include <utility>

#include <fmt/core.h>
#include <fmt/ranges.h>

#include "heed/error.h"
#include "lab/runs/contest.h"
#include "lab/runs/job.h"
#include "lab/runs/measurements.h"
#include "lab/training/interrupt.h"

namespace heed::lab {
namespace {

constexpr int64_t kMostSteps = int64_t{1} << 40;
constexpr double kShares[] = {1.0 / 16, 1.0 / 8, 1.0 / 4, 1.0 / 2, 1};  // of the steps, after which rates and models stop
constexpr double kFirstLook = 1.0 / 32;  // share of the steps after which the first standings are told: within half a minute
constexpr int64_t kLeastLook = 256;      // steps, of fewer of which a curve has no point so early
constexpr double kFirstStop = 1.0 / 4;   // before, attention that will win still lies where it began
constexpr int64_t kLeastSteps = 200;     // before which a curve foretells nothing
constexpr double kForRates = 0.4;        // of a training's seconds that a model has for rates that are not kept
constexpr int64_t kMostRuns = 4;         // times ContestOptions::seeds, of one model

// A contender that trains at one rate with one seed.
struct Lane {
  std::size_t entry;
  double rate;
  uint64_t seed;
  int64_t reached = 0;                   // steps
  Outcome outcome{};                     // after them
  std::unique_ptr<Training> training{};  // none where the outcome was kept by an earlier process

  bool Diverged() const { return !outcome.diverged.empty(); }
  double Validation() const {
    double least = NAN;
    for (const CurvePoint& point : outcome.curve) least = std::fmin(least, point.validation);
    return Diverged() ? NAN : least;
  }
};

class Race {
 public:
  Race(const std::string& what, const Contest& contest, const ContestOptions& options, const ResultStore* store)
      : what_(what), contest_(contest), options_(options), store_(store) {
    for (const SizedContender& model : contest.models) {
      std::vector<Lane>& lanes = lanes_.emplace_back();
      for (const double rate : options.rates) lanes.push_back({entries_.size(), rate, options.seed});
      entries_.push_back({.model = model, .tried = {}, .curve = {}});
    }
  }

  ContestResult Run() {
    Pace();
    LookFirst();
    for (const double share : kShares) {
      Train(fmt::format("{}: {:g} %", what_, 100 * share), AllLanes(), share);
      KeepBetterRates(share);
      if (share >= kFirstStop) GoOn(Leader(), share), StopTheHopeless();
      TellStandings(share);
    }
    if (std::ranges::none_of(entries_, [](const Entry& entry) { return entry.rate > 0; }))
      throw Divergence("every model diverged at every rate; try lower rates");
    AddSeeds();
    MeasureStopped();
    return Result();
  }

 private:
  double CostOf(std::size_t entry) const { return options_.steps > 0 ? 1 : entries_[entry].step_seconds; }

  void Pace() {
    if (options_.steps > 0) {
      for (Entry& entry : entries_) entry.steps = options_.steps;
    } else {
      const std::vector<double> seconds =
          options_.step_seconds.empty() ? MeasurePace(what_, contest_, options_.quiet, store_) : options_.step_seconds;
      for (std::size_t i = 0; i < entries_.size(); ++i) entries_[i].step_seconds = seconds[i];
    }
    const double runs = static_cast<double>(options_.seeds) + (options_.rates.size() > 1 ? kForRates : 0);
    for (std::size_t i = 0; i < entries_.size(); ++i) {
      Entry& entry = entries_[i];
      if (options_.steps == 0) {
        const double steps = std::round(options_.seconds / entry.step_seconds);
        entry.steps = static_cast<int64_t>(std::clamp(steps, 1.0, static_cast<double>(kMostSteps)));
      }
      purse_ += runs * static_cast<double>(entry.steps) * CostOf(i);
    }
  }

  // All of them until so many of their steps, as a share, are done.
  void Advance(const std::string& what, const std::vector<Lane*>& lanes, double share) {
    std::vector<Job> jobs;
    jobs.reserve(lanes.size());
    for (Lane* lane : lanes) jobs.push_back(share < 1 ? OnTheWay(*lane, share) : Whole(*lane));
    const std::vector<Outcome> outcomes = DoJobs(what, jobs, store_, options_.threads, options_.quiet);
    for (std::size_t i = 0; i < lanes.size(); ++i) {
      spent_ += static_cast<double>(jobs[i].work) * CostOf(lanes[i]->entry);
      lanes[i]->reached += jobs[i].work;
      lanes[i]->outcome = outcomes[i];
      if (share == 1) lanes[i]->training.reset();
    }
  }

  enum class Wanted { kCurve, kReport, kReportAndWeights };

  // A training until it reaches these steps. measuring: how many steps the report counts as, for the progress.
  Job JobOf(const std::string& name, Lane& lane, int64_t steps, Wanted wanted, int64_t measuring = 0) const {
    const Entry& entry = entries_[lane.entry];
    Job job = TrainingJob(name, entry.model, steps, lane.seed, contest_.settings);
    job.settings["rate"] = lane.rate, job.settings["whole"] = entry.steps;
    job.label = fmt::format("{}, {}", contest_.id, entry.model.Label());
    job.work = steps - lane.reached + measuring;
    job.timed = false;
    const bool reports = wanted != Wanted::kCurve;
    job.columns = reports ? contest_.columns : std::vector<Column>{contest_.columns.back()};
    for (Column& column : job.columns) column.optional = true;
    const bool keeps = wanted == Wanted::kReportAndWeights && store_ != nullptr && lane.seed == options_.seed;
    job.compute = [this, &lane, &entry, steps, reports, keeps, name = job.name, work = job.work,
                   count = job.columns.size()](const OnWork& on_work) {
      int64_t left = work;  // a training that begins anew, for its outcome was kept, does more
      Outcome outcome;
      try {
        if (lane.training == nullptr) lane.training = contest_.Begin({entry.model, entry.steps, lane.rate, lane.seed});
        outcome = lane.training->Reach(steps, [&] {
          if (left > 0) --left, on_work(1);
        });
        if (reports) outcome = lane.training->Report();
        if (keeps) {
          store_->Forget(name);
          lane.training->Keep(WeightsIn(*store_, contest_, entry.model, lane.seed));
        }
      } catch (const Divergence& error) {
        outcome = {.values = std::vector<double>(count, NAN), .diverged = error.what()};
      }
      on_work(left);
      return outcome;
    };
    job.check = [this, &lane, &entry, reports, keeps](const Outcome& outcome) {
      if (!outcome.diverged.empty()) return;
      if (keeps && !std::filesystem::exists(WeightsIn(*store_, contest_, entry.model, lane.seed)))
        throw InvalidArgument("weights: the file is missing");
      if (outcome.blocks.size() != (reports ? contest_.weights.size() : 0) || outcome.curve.empty() ||
          outcome.validation.size() != contest_.validation_weights.size())
        throw InvalidArgument("blocks: incomplete");
    };
    return job;
  }

  Job OnTheWay(Lane& lane, double share) const {
    const int64_t whole = entries_[lane.entry].steps;
    const auto asked = static_cast<int64_t>(std::llround(share * static_cast<double>(whole)));
    const int64_t steps = PointAfter(asked - 1, whole);
    return JobOf(fmt::format("{}-rate-{}-after-{}", contest_.id, lane.rate, steps), lane, steps, Wanted::kCurve);
  }

  Job Whole(Lane& lane) const { return JobOf(contest_.id, lane, entries_[lane.entry].steps, Wanted::kReportAndWeights); }

  std::vector<Lane*> AllLanes() {
    std::vector<Lane*> all;
    for (std::vector<Lane>& lanes : lanes_) {
      for (Lane& lane : lanes) all.push_back(&lane);
    }
    return all;
  }

  void Train(const std::string& what, const std::vector<Lane*>& going, double share) {
    Advance(what, going, share);
    for (const Lane* lane : going) entries_[lane->entry].tried.push_back({lane->rate, lane->reached, lane->Validation()});
  }

  // Somebody who waits sees early that there is something to see; nothing is decided.
  void LookFirst() {
    if (std::ranges::any_of(entries_, [](const Entry& entry) { return entry.steps < kLeastLook; })) return;
    Advance(fmt::format("{}: {:.1f} %", what_, 100 * kFirstLook), AllLanes(), kFirstLook);
    TellStandings(kFirstLook);
  }

  // The better half, until there are four of them after a sixteenth of the steps, two after an eighth, one after a quarter.
  void KeepBetterRates(double share) {
    const auto most = static_cast<std::ptrdiff_t>(std::max(1.0, std::floor(1 / (4 * share))));
    for (std::size_t i = 0; i < entries_.size(); ++i) {
      std::vector<Lane>& lanes = lanes_[i];
      if (entries_[i].stopped) continue;
      std::erase_if(lanes, [](const Lane& lane) { return lane.Diverged(); });
      std::ranges::stable_sort(lanes, {}, &Lane::Validation);
      const std::ptrdiff_t half = std::ssize(lanes) - std::ssize(lanes) / 2,
                           kept = share < kFirstStop ? std::max(most, half) : 1;
      if (kept < std::ssize(lanes)) lanes.erase(lanes.begin() + kept, lanes.end());
      entries_[i].rate = lanes.empty() ? 0 : lanes.front().rate;
    }
  }

  // None where the curve foretells nothing.
  std::optional<Prospect> ProspectOf(const Lane& lane) const {
    const std::optional<Foretold> end = Foretell(lane.outcome.curve, entries_[lane.entry].steps);
    return end ? std::optional<Prospect>({*end, lane.outcome.validation}) : std::nullopt;
  }

  // Of its whole trainings.
  Prospect ProspectOf(const Judged& judged) const { return {{judged.loss, 0, 0}, MeanOf(ValidationOf(judged.contender))}; }

  double MayEndAhead(const Lane& lane, const Prospect& leader) const {
    const std::optional<Prospect> own = ProspectOf(lane);
    return own ? lab::MayEndAhead(*own, leader, contest_.validation_weights) : INFINITY;
  }

  std::optional<Prospect> Leader() const {
    std::optional<Prospect> leader;
    for (const std::vector<Lane>& lanes : lanes_) {
      if (lanes.empty()) continue;
      std::optional<Prospect> one = ProspectOf(lanes.front());
      if (one && (!leader || one->end.loss < leader->end.loss)) leader = std::move(one);
    }
    return leader;
  }

  void StopTheHopeless() {
    const std::optional<Prospect> leader = Leader();
    if (!leader) return;
    for (std::size_t i = 0; i < entries_.size(); ++i) {
      if (lanes_[i].empty() || lanes_[i].front().reached < kLeastSteps) continue;
      if (MayEndAhead(lanes_[i].front(), *leader) >= 0) continue;
      entries_[i].stopped = true;
      stopped_.emplace(i, std::move(lanes_[i].front()));
      lanes_[i].clear();
    }
  }

  // Those that stopped for a leader that learned less than its curve foretold go on, as far as there are seconds. Whether any
  // do.
  bool GoOn(const std::optional<Prospect>& leader, double share) {
    double left = purse_ - spent_;
    bool any = false;
    std::vector<Lane*> going;
    for (std::size_t i = 0; leader && i < entries_.size(); ++i) {
      if (!entries_[i].stopped || !(MayEndAhead(stopped_.at(i), *leader) > 0)) continue;
      left -= static_cast<double>(entries_[i].steps - stopped_.at(i).reached) * CostOf(i);
      if (left < 0) continue;
      lanes_[i].push_back(std::move(stopped_.at(i)));
      stopped_.erase(i);
      entries_[i].stopped = false, any = true;
      if (lanes_[i].back().reached < entries_[i].steps) going.push_back(&lanes_[i].back());
    }
    if (!going.empty()) Train(fmt::format("{}: {:g} %, after all", what_, 100 * share), going, share);
    return any;
  }

  // "next character, after 25 % of a training, on the validation part: LSTM 1.412, GRU 1.502; stopped: convolution".
  void TellStandings(double share) const {
    if (options_.quiet) return;
    std::vector<const Lane*> order;
    const auto loss_of = [](const Lane& lane) { return lane.Diverged() ? INFINITY : lane.Validation(); };
    for (const std::vector<Lane>& lanes : lanes_) {
      if (!lanes.empty()) order.push_back(&*std::ranges::min_element(lanes, {}, loss_of));
    }
    std::ranges::stable_sort(order, {}, [&](const Lane* lane) { return loss_of(*lane); });
    const Measure& loss = contest_.columns.front().measure;
    std::vector<std::string> standing, stopped;
    standing.reserve(order.size()), stopped.reserve(stopped_.size());
    for (const Lane* lane : order)
      standing.push_back(fmt::format("{} {}", entries_[lane->entry].model.Label(), loss.Text(lane->Validation())));
    for (const auto& [i, lane] : stopped_) stopped.push_back(entries_[i].model.Label());
    std::fprintf(stderr, "%s, after %.3g %% of a training, on the validation part: %s%s\n", what_.c_str(), 100 * share,
                 fmt::format("{}", fmt::join(standing, ", ")).c_str(),
                 stopped.empty() ? "" : fmt::format("; stopped: {}", fmt::join(stopped, ", ")).c_str());
  }

  // Whole trainings of a contender, the first seed's before the others'.
  std::vector<std::vector<double>> ValidationOf(std::size_t i) const {
    std::vector<std::vector<double>> losses;
    for (const Lane& lane : lanes_[i]) {
      if (!lane.Diverged()) losses.push_back(lane.outcome.validation);
    }
    return losses;
  }

  // By the validation part, the least loss first.
  std::vector<Judged> Judgement() const {
    std::vector<Score> scores(entries_.size());
    for (std::size_t i = 0; i < entries_.size(); ++i) scores[i].losses = ValidationOf(i);
    return Judge(scores, contest_.validation_weights);
  }

  // Who is to have a further run: the leader, unless it is known to be within half of what counts as nothing and has its seeds,
  // and the one that it may yet lose most to. Runs of others would change less of what the answer rests on.
  std::vector<std::size_t> Deciding(const std::vector<Judged>& judged) const {
    const double margin = MarginOf(options_.tolerance, judged.front().loss, contest_.simple_loss);
    const bool known = judged.front().may_lose <= margin / 2;
    const auto runs = [&](const Judged& one) { return std::ssize(lanes_[one.contender]); };
    const int64_t most = known ? options_.seeds : kMostRuns * options_.seeds;
    std::vector<std::size_t> deciding;
    if (runs(judged.front()) < most) deciding.push_back(judged.front().contender);
    const Judged* rival = nullptr;
    for (const Judged& one : judged) {
      if (known || one.standing != Standing::kTied || runs(one) >= most) continue;
      if (rival == nullptr || one.by_both.low < rival->by_both.low) rival = &one;
    }
    if (rival != nullptr) deciding.push_back(rival->contender);
    return deciding;
  }

  void AddSeeds() {
    for (int64_t round = 1;; ++round) {
      std::vector<Judged> judged = Judgement();
      if (GoOn(ProspectOf(judged.front()), 1)) judged = Judgement();
      double left = purse_ - spent_;
      std::vector<Lane*> going;
      for (const std::size_t i : Deciding(judged)) {
        left -= static_cast<double>(entries_[i].steps) * CostOf(i);
        if (left < 0) continue;
        lanes_[i].push_back({i, entries_[i].rate, options_.seed + static_cast<uint64_t>(lanes_[i].size())});
        going.push_back(&lanes_[i].back());
      }
      if (going.empty()) return;
      Advance(fmt::format("{}: further runs, {}", what_, round), going, 1);
    }
  }

  // The best states of those that were stopped.
  void MeasureStopped() {
    std::vector<Job> jobs;
    std::vector<Lane*> measured;
    for (auto& [i, lane] : stopped_) {
      if (!lane.outcome.blocks.empty()) continue;
      measured.push_back(&lane);
      jobs.push_back(
          JobOf(fmt::format("{}-stopped-after-{}", contest_.id, lane.reached), lane, lane.reached, Wanted::kReport, 1));
    }
    if (jobs.empty()) return;
    const std::vector<Outcome> outcomes =
        DoJobs(what_ + ": those that stopped", jobs, store_, options_.threads, options_.quiet);
    for (std::size_t i = 0; i < measured.size(); ++i) measured[i]->outcome = outcomes[i];
  }

  ContestResult Result() {
    std::size_t runs = 1;
    for (const std::vector<Lane>& lanes : lanes_) runs = std::max(runs, lanes.size());
    std::vector<Column> columns = contest_.columns;
    for (Column& column : columns) column.optional = true;
    Measurements measured(contest_.id, columns, contest_.models, options_.seed, static_cast<int64_t>(runs));
    std::vector<Score> scores(entries_.size());
    for (std::size_t i = 0; i < entries_.size(); ++i) {
      Entry& entry = entries_[i];
      for (std::size_t run = 0; run < lanes_[i].size(); ++run) measured.Put(i, run, lanes_[i][run].outcome);
      scores[i].losses = measured.BlockLosses(entry.model);
      // After a whole training it has numbers as well.
      if (entry.stopped && stopped_.at(i).reached == entry.steps) measured.Put(i, 0, stopped_.at(i).outcome);
      if (lanes_[i].empty() && !entry.stopped) continue;
      const Lane& first = entry.stopped ? stopped_.at(i) : lanes_[i].front();
      entry.reached = first.reached, entry.curve = first.outcome.curve, entry.best_steps = first.outcome.best_steps;
      entry.runs = std::max<int64_t>(1, measured.RunsOf(entry.model));
    }
    std::vector<Judged> verdict = Judge(scores, contest_.weights);
    AddStopped(verdict, scores);
    return {options_.rates,       entries_,        std::move(measured), std::move(verdict), options_.tolerance,
            contest_.simple_loss, contest_.weights};
  }

  // What a model that was stopped might have reached is part of the price of every other.
  void AddStopped(std::vector<Judged>& verdict, const std::vector<Score>& scores) const {
    for (Judged& judged : verdict) {
      if (scores[judged.contender].losses.empty()) continue;
      const Prospect own{{judged.loss, 0, 0}, MeanOf(scores[judged.contender].losses)};
      for (const auto& [i, lane] : stopped_) {
        if (lane.Diverged()) continue;
        const std::optional<Foretold> end = Foretell(lane.outcome.curve, entries_[i].steps);
        const Prospect other{{lane.outcome.values.front() - end->gain, end->gain, end->error}, lane.outcome.blocks};
        judged.may_lose = std::max(judged.may_lose, lab::MayEndAhead(other, own, contest_.weights));
      }
    }
    for (Judged& judged : verdict) {
      const auto stopped = stopped_.find(judged.contender);
      if (stopped == stopped_.end() || stopped->second.Diverged()) continue;
      judged.standing = Standing::kStopped, judged.loss = stopped->second.outcome.values.front();
    }
    std::ranges::stable_sort(verdict, {}, [](const Judged& judged) { return judged.standing == Standing::kDiverged; });
  }

  const std::string& what_;
  const Contest& contest_;
  const ContestOptions& options_;
  const ResultStore* store_;
  std::vector<Entry> entries_;
  std::vector<std::vector<Lane>> lanes_;  // by entry; first those of its rates, then those of its seeds
  std::map<std::size_t, Lane> stopped_;   // by entry
  double purse_ = 0, spent_ = 0;          // seconds, or steps
};

}  // namespace

ContestResult Hold(const std::string& what, const Contest& contest, const ContestOptions& options, const ResultStore* store) {
  return Race(what, contest, options, store).Run();
}

}  // namespace heed::lab
