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
#include "lab/runs/pilot.h"
#include "lab/training/divergence.h"

namespace heed::lab {
namespace {

constexpr int64_t kMostSteps = int64_t{1} << 40;
constexpr double kShares[] = {1.0 / 16, 1.0 / 8, 1.0 / 4, 1.0 / 2, 1};  // of the steps, after which rates and models stop
constexpr double kFirstLook = 1.0 / 32;  // share of the steps after which the first standings are told: within half a minute
constexpr int64_t kLeastLook = 256;      // steps, of fewer of which a curve has no point so early
constexpr double kFirstStop = 1.0 / 4;   // before, attention that will win still lies where it began
constexpr int64_t kLeastSteps = 200;     // before which a curve foretells nothing
constexpr double kLaw = 0.5;             // share of a gain that a curve foretells by which it may be wrong
constexpr double kOneRun = 0.05;         // share of the loss that another seed may make, where there is one run
constexpr double kForRates = 0.4;        // of a training's seconds that a model has for rates that are not kept
constexpr int64_t kMostRuns = 4;         // times Conduct::seeds, of one model

// A contender at a rate with a seed.
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

// Twice the deviation of the mean difference between two runs by the blocks of the validation part.
double ReachOfBlocks(const std::vector<double>& a, const std::vector<double>& b, const std::vector<double>& weights) {
  double sum = 0, weight = 0, squares = 0;
  for (std::size_t i = 0; i < weights.size(); ++i) sum += weights[i] * (a[i] - b[i]), weight += weights[i];
  for (std::size_t i = 0; i < weights.size(); ++i) squares += std::pow(weights[i] / weight * (a[i] - b[i] - sum / weight), 2);
  const double blocks = static_cast<double>(weights.size());
  return blocks < 2 ? INFINITY : 2 * std::sqrt(squares * blocks / (blocks - 1));
}

class Race {
 public:
  Race(const std::string& what, const Contest& contest, const ContestOptions& options, const ResultStore* store)
      : what_(what), contest_(contest), options_(options), store_(store) {
    entries_.reserve(contest.models.size());
    for (const SizedContender& model : contest.models) entries_.push_back({.model = model, .tried = {}, .curve = {}});
  }

  ContestResult Run() {
    Pace();
    Begin();
    LookFirst();
    for (const double share : kShares) {
      Round(share);
      KeepBetterRates(share);
      if (share >= kFirstStop) StopTheHopeless();
      TellStandings(share);
    }
    if (std::ranges::none_of(entries_, [](const Entry& entry) { return entry.rate > 0; }))
      throw Divergence("every model diverged at every rate; try lower rates");
    AddSeeds();
    return Result();
  }

 private:
  double CostOf(std::size_t entry) const { return options_.steps > 0 ? 1 : entries_[entry].step_seconds; }

  void Pace() {
    if (options_.steps > 0) {
      for (Entry& entry : entries_) entry.steps = options_.steps;
    } else {
      const std::vector<double> seconds =
          options_.step_seconds.empty() ? MeasurePace(what_, contest_, options_.conduct.quiet, store_) : options_.step_seconds;
      for (std::size_t i = 0; i < entries_.size(); ++i) entries_[i].step_seconds = seconds[i];
    }
    const double runs = static_cast<double>(options_.conduct.seeds) + (options_.rates.size() > 1 ? kForRates : 0);
    for (std::size_t i = 0; i < entries_.size(); ++i) {
      Entry& entry = entries_[i];
      if (options_.steps == 0) {
        const double steps = std::round(options_.seconds / entry.step_seconds);
        entry.steps = static_cast<int64_t>(std::clamp(steps, 1.0, static_cast<double>(kMostSteps)));
      }
      purse_ += runs * static_cast<double>(entry.steps) * CostOf(i);
    }
  }

  void Begin() {
    lanes_.resize(entries_.size());
    for (std::size_t i = 0; i < entries_.size(); ++i) {
      for (const double rate : options_.rates) lanes_[i].push_back({i, rate, options_.conduct.seed});
    }
  }

  // All of them until so many of their steps, as a share, are done.
  void Advance(const std::string& what, const std::vector<Lane*>& lanes, double share) {
    std::vector<Job> jobs;
    jobs.reserve(lanes.size());
    for (Lane* lane : lanes) jobs.push_back(share < 1 ? OnTheWay(*lane, share) : Whole(*lane));
    const std::vector<Outcome> outcomes = DoJobs(what, jobs, store_, options_.conduct.threads, options_.conduct.quiet);
    for (std::size_t i = 0; i < lanes.size(); ++i) {
      spent_ += static_cast<double>(jobs[i].work) * CostOf(lanes[i]->entry);
      lanes[i]->reached += jobs[i].work;
      lanes[i]->outcome = outcomes[i];
      if (share == 1) lanes[i]->training.reset();
    }
  }

  // A training until it reaches these steps; `whole`: with all that is reported of it.
  Job JobOf(const std::string& name, Lane& lane, int64_t steps, const std::vector<Column>& columns, bool whole) const {
    const Entry& entry = entries_[lane.entry];
    Job job = TrainingJob(name, entry.model, steps, lane.seed, contest_.settings);
    job.settings["rate"] = lane.rate, job.settings["whole"] = entry.steps;
    job.label = fmt::format("{}, {}", contest_.id, entry.model.Label());
    job.work = steps - lane.reached;
    job.timed = false;
    job.columns = columns;
    for (Column& column : job.columns) column.optional = true;
    const bool keeps = whole && store_ != nullptr && lane.seed == options_.conduct.seed;
    job.compute = [this, &lane, &entry, steps, whole, keeps, name = job.name, work = job.work,
                   count = columns.size()](const OnWork& on_work) {
      int64_t left = work;  // a training that begins anew, for its outcome was kept, does more
      Outcome outcome;
      try {
        if (lane.training == nullptr) lane.training = contest_.Begin({entry.model, entry.steps, lane.rate, lane.seed});
        outcome = lane.training->Reach(steps, [&] {
          if (left > 0) --left, on_work(1);
        });
        if (whole) outcome = lane.training->Report();
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
    job.check = [this, &lane, &entry, whole, keeps](const Outcome& outcome) {
      if (!outcome.diverged.empty()) return;
      if (keeps && !std::filesystem::exists(WeightsIn(*store_, contest_, entry.model, lane.seed)))
        throw InvalidArgument("weights: the file is missing");
      if (outcome.blocks.size() != (whole ? contest_.weights.size() : 0) || outcome.curve.empty() ||
          outcome.validation.size() != contest_.validation_weights.size())
        throw InvalidArgument("blocks: incomplete");
    };
    return job;
  }

  Job OnTheWay(Lane& lane, double share) const {
    const int64_t whole = entries_[lane.entry].steps;
    const auto asked = static_cast<int64_t>(std::llround(share * static_cast<double>(whole)));
    const int64_t steps = PointAfter(asked - 1, whole);
    return JobOf(fmt::format("{}-rate-{}-after-{}", contest_.id, lane.rate, steps), lane, steps, {contest_.columns.back()},
                 /*whole=*/false);
  }

  Job Whole(Lane& lane) const { return JobOf(contest_.id, lane, entries_[lane.entry].steps, contest_.columns, /*whole=*/true); }

  std::vector<Lane*> AllLanes() {
    std::vector<Lane*> all;
    for (std::vector<Lane>& lanes : lanes_) {
      for (Lane& lane : lanes) all.push_back(&lane);
    }
    return all;
  }

  void Round(double share) {
    const std::vector<Lane*> going = AllLanes();
    Advance(fmt::format("{}: {:g} %", what_, 100 * share), going, share);
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

  std::optional<Foretold> ForetellOf(const Lane& lane) const {
    return Foretell(lane.outcome.curve, entries_[lane.entry].steps);
  }

  // Whether chance, in blocks of data and in a single run, and errors of the law may make up for what the curves foretell.
  bool MayStillWin(const Lane& lane, const Lane& leader) const {
    const std::optional<Foretold> own = ForetellOf(lane), best = ForetellOf(leader);
    if (!own || !best) return true;
    const double blocks = ReachOfBlocks(lane.outcome.validation, leader.outcome.validation, contest_.validation_weights);
    const double chance = std::hypot(blocks, kOneRun * std::abs(best->loss));
    return !(own->loss - best->loss > std::hypot(chance, kLaw * own->gain, kLaw * best->gain));
  }

  void StopTheHopeless() {
    const Lane* leader = nullptr;
    double least = INFINITY;
    for (const std::vector<Lane>& lanes : lanes_) {
      if (lanes.empty()) continue;
      const std::optional<Foretold> foretold = ForetellOf(lanes.front());
      if (foretold && foretold->loss < least) least = foretold->loss, leader = &lanes.front();
    }
    if (leader == nullptr) return;
    for (std::size_t i = 0; i < entries_.size(); ++i) {
      if (lanes_[i].empty() || &lanes_[i].front() == leader || lanes_[i].front().reached < kLeastSteps) continue;
      if (!MayStillWin(lanes_[i].front(), *leader)) Stop(i);
    }
  }

  void Stop(std::size_t i) {
    entries_[i].stopped = true;
    stopped_.emplace(i, std::move(lanes_[i].front()));
    stopped_.at(i).training.reset();
    lanes_[i].clear();
  }

  // "next character, after 25 % of a training, on the validation part: LSTM 1.412, GRU 1.502; stopped: convolution".
  void TellStandings(double share) const {
    if (options_.conduct.quiet) return;
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
  std::vector<std::size_t> Deciding() const {
    const std::vector<Judged> judged = Judgement();
    const double margin = MarginOf(options_.tolerance, judged.front().loss, contest_.simple_loss);
    const bool known = judged.front().may_lose <= margin / 2;
    const auto runs = [&](const Judged& one) { return std::ssize(lanes_[one.contender]); };
    const int64_t most = known ? options_.conduct.seeds : kMostRuns * options_.conduct.seeds;
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
      double left = purse_ - spent_;
      std::vector<Lane*> going;
      for (const std::size_t i : Deciding()) {
        left -= static_cast<double>(entries_[i].steps) * CostOf(i);
        if (left < 0) continue;
        lanes_[i].push_back({i, entries_[i].rate, options_.conduct.seed + static_cast<uint64_t>(lanes_[i].size())});
        going.push_back(&lanes_[i].back());
      }
      if (going.empty()) return;
      Advance(fmt::format("{}: further runs, {}", what_, round), going, 1);
    }
  }

  ContestResult Result() {
    std::size_t runs = 1;
    for (const std::vector<Lane>& lanes : lanes_) runs = std::max(runs, lanes.size());
    std::vector<Column> columns = contest_.columns;
    for (Column& column : columns) column.optional = true;
    Measurements measured(contest_.id, columns, contest_.models, options_.conduct.seed, static_cast<int64_t>(runs));
    std::vector<Score> scores(entries_.size());
    for (std::size_t i = 0; i < entries_.size(); ++i) {
      Entry& entry = entries_[i];
      for (std::size_t run = 0; run < lanes_[i].size(); ++run) measured.Put(i, run, lanes_[i][run].outcome);
      scores[i].losses = measured.BlockLosses(entry.model);
      // After a whole training it has numbers as well.
      if (entry.stopped && !stopped_.at(i).outcome.blocks.empty()) measured.Put(i, 0, stopped_.at(i).outcome);
      if (lanes_[i].empty() && !entry.stopped) continue;
      const Lane& first = entry.stopped ? stopped_.at(i) : lanes_[i].front();
      entry.reached = first.reached, entry.curve = first.outcome.curve, entry.best_steps = first.outcome.best_steps;
      entry.runs = std::max<int64_t>(1, measured.RunsOf(entry.model));
    }
    std::vector<Judged> verdict = WithStopped(Judge(scores, contest_.weights));
    return {options_.rates,       entries_,        std::move(measured), std::move(verdict), options_.tolerance,
            contest_.simple_loss, contest_.weights};
  }

  std::vector<Judged> WithStopped(std::vector<Judged> verdict) const {
    for (Judged& judged : verdict) {
      if (!entries_[judged.contender].stopped) continue;
      judged.standing = Standing::kStopped;
      judged.loss = stopped_.at(judged.contender).Validation();
    }
    std::ranges::stable_sort(verdict, {}, [](const Judged& judged) { return judged.standing == Standing::kDiverged; });
    return verdict;
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

std::filesystem::path WeightsIn(const ResultStore& store, const Contest& contest, const Contender& model, uint64_t seed) {
  return store.folder() / fmt::format("{}-{}-seed-{}.safetensors", contest.id, model.Id(), seed);
}

ContestResult Hold(const std::string& what, const Contest& contest, const ContestOptions& options, const ResultStore* store) {
  return Race(what, contest, options, store).Run();
}

}  // namespace heed::lab
