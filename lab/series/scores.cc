#include "lab/series/scores.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <fmt/core.h>

#include "heed/error.h"
#include "heed/shown_name.h"
#include "lab/data/view.h"
#include "lab/report/file.h"
#include "lab/series/csv_form.h"
#include "lab/series/date.h"
#include "lab/series/form.h"
#include "lab/training/interrupt.h"

namespace heed::lab {
namespace {

constexpr std::size_t kWindowsAtOnce = 512;

// Of classes: loss (nats), accuracy, macro_f1 (mean over the classes that occur), auc (area under the ROC curve; of more than
// two classes the mean of each against the rest, over those that occur). The area needs every answer: 12 bytes of each are
// kept, of more than two classes 8 for each class and 4.
class ClassScores {
 public:
  explicit ClassScores(int64_t classes)
      : classes_(classes), kept_(classes == 2 ? 1 : classes), of_it_(classes), told_(classes), both_(classes) {}

  // probabilities: [classes].
  void Add(const double* probabilities, int64_t truth) {
    const auto said = std::max_element(probabilities, probabilities + classes_) - probabilities;
    loss_ -= std::log(probabilities[truth]);
    of_it_[truth] += 1, told_[said] += 1;
    if (said == truth) both_[truth] += 1;
    probabilities_.insert(probabilities_.end(), probabilities, probabilities + kept_);
    truths_.push_back(static_cast<int32_t>(truth));
  }

  SeriesScores Scores() const {
    const auto count = static_cast<double>(truths_.size());
    double f1 = 0, occurring = 0, area = 0, areas = 0;
    for (int64_t c = 0; c < classes_; ++c) {
      if (of_it_[c] > 0) occurring += 1, f1 += 2 * both_[c] / (of_it_[c] + told_[c]);
      // Of two classes the area of one is that of the other.
      if (c < kept_ && of_it_[c] > 0 && of_it_[c] < count) areas += 1, area += AreaOf(c);
    }
    return {std::ssize(truths_),
            {{"loss", loss_ / count},
             {"accuracy", std::accumulate(both_.begin(), both_.end(), 0.0) / count},
             {"macro_f1", f1 / occurring},
             {"auc", areas == 0 ? NAN : area / areas}}};
  }

 private:
  // How often an answer of the class is more probable in its column than one of the rest, where equals count half.
  double AreaOf(int64_t label) const {
    const auto probability = [&](uint32_t i) { return probabilities_[static_cast<std::size_t>(i) * kept_ + label]; };
    std::vector<uint32_t> order(truths_.size());
    std::iota(order.begin(), order.end(), 0U);
    std::ranges::sort(order, {}, probability);
    double ranks = 0;
    for (std::size_t first = 0; first < order.size();) {
      std::size_t end = first;
      while (end < order.size() && probability(order[end]) == probability(order[first])) ++end;
      const double rank = 0.5 * static_cast<double>(first + end + 1);  // from 1, in the mean
      for (; first < end; ++first) {
        if (truths_[order[first]] == label) ranks += rank;
      }
    }
    const double count = of_it_[label], rest = static_cast<double>(truths_.size()) - count;
    return (ranks - count * (count + 1) / 2) / (count * rest);
  }

  int64_t classes_, kept_;  // probabilities that are kept of an answer
  double loss_ = 0;
  std::vector<double> of_it_, told_, both_;  // answers by their true class, by the class that was said, and where both agree
  std::vector<double> probabilities_;        // [answers, kept_]
  std::vector<int32_t> truths_;
};

// Of values: mse, mae, r2, coverage (share of the values within the interval); of forecasts mse, mae, mase (mae in units of the
// mean change from step to step before the scored part: Hyndman and Koehler 2006, "Another look at measures of forecast
// accuracy"), pinball (of the quantiles 0.1 and 0.9, in the mean), coverage.
class ValueScores {
 public:
  // low, high: of the interval, beside the answer. naive: the mean change before, of a forecast.
  void Add(double truth, double answer, double low, double high, double naive) {
    const double beside = truth - answer, size = std::abs(beside);
    const auto pinball = [](double above, double quantile) { return std::max(quantile * above, (quantile - 1) * above); };
    ++answers_;
    squares_ += beside * beside, sizes_ += size, scaled_ += size / naive;
    pinball_ += (pinball(beside - low, 0.1) + pinball(beside - high, 0.9)) / 2;
    covered_ += beside >= low && beside <= high ? 1 : 0;
    const double from_mean = truth - mean_;
    mean_ += from_mean / static_cast<double>(answers_);
    spread_ += from_mean * (truth - mean_);
  }

  SeriesScores Scores(bool forecasts) const {
    const auto count = static_cast<double>(answers_);
    SeriesScores scores{answers_, {{"mse", squares_ / count}, {"mae", sizes_ / count}}};
    if (forecasts) {
      scores.numbers.insert(scores.numbers.end(), {{"mase", scaled_ / count}, {"pinball", pinball_ / count}});
    } else {
      scores.numbers.emplace_back("r2", 1 - squares_ / spread_);
    }
    scores.numbers.emplace_back("coverage", covered_ / count);
    return scores;
  }

 private:
  int64_t answers_ = 0;
  double squares_ = 0, sizes_ = 0, scaled_ = 0, pinball_ = 0, covered_ = 0;
  double mean_ = 0, spread_ = 0;  // of the truths, and the squares of their distances from it
};

// naive: of a forecast the mean change from step to step before the scored part.
struct ScoredWindow : AnsweredWindow {
  double naive = 1;
};

class Scorer {
 public:
  explicit Scorer(const KeptModel& model) : model_(model), classes_(model.form.outputs()) {}

  // Windows of data, of which the answers look at `past`.
  void Add(const SeriesData& data, std::span<const ScoredWindow> windows, const std::vector<SeriesWindow>& past) {
    if (windows.empty()) return;
    const SeriesAnswers answers = AnswersOf(model_, data, past);
    for (; !windows.empty(); windows = windows.subspan(std::min(windows.size(), kWindowsAtOnce))) {
      if (Interrupted()) throw Interruption("interrupted during an evaluation");
      AddSome(data, windows.first(std::min(windows.size(), kWindowsAtOnce)), answers);
    }
  }

  SeriesScores Scores() const { return model_.form.Classifies() ? classes_.Scores() : values_.Scores(model_.form.Forecasts()); }

 private:
  void AddSome(const SeriesData& data, std::span<const ScoredWindow> scored, const SeriesAnswers& answers_of) {
    const SeriesForm& form = model_.form;
    const int64_t outputs = form.outputs();
    std::vector<SeriesWindow> windows;
    for (const ScoredWindow& one : scored) windows.push_back(one.window);
    const at::Tensor answers = answers_of(windows).contiguous();
    std::vector<int64_t> classes;
    std::vector<at::Tensor> values;
    form.ForEach(data, windows, Targets::kLast, [&](const SeriesBatch& batch) {
      classes.insert(classes.end(), batch.classes.begin(), batch.classes.end());
      if (!batch.values.empty()) values.push_back(View(batch.values, {std::ssize(batch.scored), outputs}).clone());
    });
    at::Tensor truths = at::empty({0}, at::kDouble);
    if (!form.Classifies()) truths = InOwnUnits(form, data, windows, at::cat(values)).contiguous();
    const double* const truth = truths.const_data_ptr<double>();
    int64_t row = 0;  // of the answers
    for (const ScoredWindow& one : scored) {
      for (int64_t step = 0; step < form.Answered(one.window.steps); ++step, ++row) {
        if (step < one.answered) continue;
        const double* const answer = answers.const_data_ptr<double>() + row * outputs;
        if (form.Classifies()) classes_.Add(answer, classes[row]);
        for (int64_t o = 0; !form.Classifies() && o < outputs; ++o)
          values_.Add(truth[row * outputs + o], answer[o], model_.low[o], model_.high[o], one.naive);
      }
    }
  }

  const KeptModel& model_;
  ClassScores classes_;
  ValueScores values_;
};

// The first step that is scored: a time, or a row of the file.
class ScoredFrom {
 public:
  ScoredFrom(const KeptModel& model, const std::string& text) : form_(model.form), text_(text) {
    if (text.empty()) return;
    if (!form_.each_step) Refuse("the model has one answer a sequence; give a file of the sequences to score");
    const std::optional<double> date = SecondsOfDate(text, ParseDateOrder(form_.date_order));
    const std::optional<double> number = NumberOf(text, /*decimal_comma=*/false);
    if (date && !form_.has_dates) Refuse("it is a date, and the model reads none; give the row of the file to score from");
    by_time_ = date || (number && form_.has_times && !form_.has_dates);
    if (!by_time_ && !(number && *number == std::round(*number)))
      Refuse(fmt::format("expected {}", form_.has_dates   ? "a date, as 2024-03-01, or a row of the file"
                                        : form_.has_times ? "a time, as in '" + ShownName(form_.time) + "'"
                                                          : "a row of the file, where 1 is the header"));
    from_ = date ? *date : *number;
  }

  // How many steps of the sequence lie before it. The next two speak of all that were asked for.
  int64_t Before(const SeriesSequence& sequence) {
    if (text_.empty()) return 0;
    int64_t before = 0;
    for (int64_t step = sequence.before; step < sequence.steps; ++step) {
      const bool scored = At(sequence, step) >= from_;
      (scored ? any_scored_ : any_before_) = true;
    }
    while (before < sequence.steps && At(sequence, before) < from_) ++before;
    return before;
  }
  void RequireInside() const {
    if (text_.empty() || (any_scored_ && any_before_)) return;
    Refuse(any_before_ ? "the file ends before it; give one that goes on behind it"
                       : "the file begins there or later; give it with the steps before, or without --from");
  }

 private:
  double At(const SeriesSequence& sequence, int64_t step) const {
    return by_time_ ? sequence.times[step] : static_cast<double>(sequence.rows[step]);
  }
  [[noreturn]] void Refuse(const std::string& why) const { throw InvalidArgument("from: '" + ShownName(text_) + "': " + why); }

  const SeriesForm& form_;
  std::string text_;
  bool by_time_ = false, any_scored_ = false, any_before_ = false;
  double from_ = 0;
};

// The windows of a forecast that are scored, by the sequence that they are in.
class ScoredWindows {
 public:
  // longest: of the sequences, for an error.
  ScoredWindows(const SeriesForm& form, const std::string& name, const std::vector<SequenceSteps>& steps, double share) {
    std::vector<int64_t> before = {0};  // windows of the sequences before
    int64_t longest = 0;
    for (const SequenceSteps& one : steps) {
      const int64_t begin = one.before ? *one.before : SplitSteps(one.steps, share).validation_end;
      Sequence& sequence = sequences_[one.id];
      sequence.begin = begin, sequence.first = std::max(begin, form.context) - form.context;
      before.push_back(before.back() + std::max<int64_t>(0, one.steps - form.horizon - sequence.first - form.context + 1));
      longest = std::max(longest, one.steps);
    }
    const int64_t all = before.back(), kept = std::min(all, kMostForecasts);
    if (kept == 0) {
      throw FileError(
          fmt::format("{}: windows of {} steps and {} to predict do not fit its sequences, the longest of which has {}{}", name,
                      form.context, form.horizon, longest,
                      steps.front().before ? "; from --from on they need as many as the model predicts" : ""));
    }
    std::size_t s = 0;
    for (int64_t i = 0; i < kept; ++i) {
      const int64_t place = i * all / kept;
      while (before[s + 1] <= place) ++s;
      Sequence& sequence = sequences_[steps[s].id];
      sequence.windows.push_back(sequence.first + place - before[s]);
    }
  }

  struct Sequence {
    int64_t begin = 0, first = 0;       // of its steps the first that is scored, and the first of its first window
    std::vector<int64_t> windows = {};  // first steps, rising
    int64_t seen = 0;                   // steps that were given
    std::size_t next = 0;               // of the windows, that is to be scored
    double naive = 0;                   // the mean change from step to step before `begin`
  };
  Sequence& operator[](const std::string& id) { return sequences_.at(id); }

 private:
  std::unordered_map<std::string, Sequence> sequences_;
};

// Cuts the scored windows of a forecast out of sequences that come in parts, with the steps that answers look at.
class ForecastScorer {
 public:
  ForecastScorer(const KeptModel& model, const std::string& name, const std::vector<SequenceSteps>& steps, double share)
      : model_(model), whole_(LooksAtAll(model)), scored_(model.form, name, steps, share) {}

  void Add(SeriesData part) {
    std::vector<SeriesSequence> sequences = std::exchange(part.sequences, {});
    if (kept_.name.empty()) kept_ = std::move(part);
    for (SeriesSequence& sequence : sequences) AddSequence(std::move(sequence));
  }

  // Of the windows that foretell no missing value.
  SeriesScores Scores() const {
    std::vector<ScoredWindow> windows = windows_;
    std::erase_if(windows, [&](const ScoredWindow& one) { return model_.form.ForetellsGap(kept_, one.window); });
    if (windows.empty())
      throw FileError(kept_.name + ": each window to score predicts a missing value of '" + ShownName(model_.form.target) +
                      "'; fill the gaps in, or score a larger share by --share");
    Scorer scorer(model_);
    scorer.Add(kept_, windows, past_);
    return scorer.Scores();
  }

 private:
  void AddSequence(SeriesSequence sequence) {
    ScoredWindows::Sequence& scored = scored_[sequence.id];
    const int64_t offset = scored.seen - sequence.before;  // of its first step in the whole sequence
    for (int64_t i = std::max<int64_t>(1, sequence.before); i < sequence.steps && offset + i < scored.begin; ++i)
      scored.naive += std::abs(sequence.targets[i] - sequence.targets[i - 1]) / static_cast<double>(scored.begin - 1);
    scored.seen = offset + sequence.steps;
    const int64_t context = model_.form.context;
    const int64_t looked_at = whole_ ? scored.seen : StepsNeeded(model_);
    while (scored.next < scored.windows.size() && scored.windows[scored.next] + context + model_.form.horizon <= scored.seen) {
      const int64_t first = scored.windows[scored.next++] - offset;
      const int64_t begin = whole_ ? 0 : std::max<int64_t>(0, first + context - looked_at);
      if (!whole_)
        Keep(sequence.Part(begin, first + context + model_.form.horizon, model_.form.numbers()), first + context - begin);
      windows_.push_back({{{std::ssize(kept_.sequences) - (whole_ ? 0 : 1), first - begin, context}}, scored.naive});
    }
    if (whole_) Keep(std::move(sequence), scored.begin);
  }

  void Keep(SeriesSequence sequence, int64_t known) {
    past_.push_back({std::ssize(kept_.sequences), 0, known});
    kept_.sequences.push_back(std::move(sequence));
  }

  const KeptModel& model_;
  bool whole_;
  ScoredWindows scored_;
  SeriesData kept_;
  std::vector<ScoredWindow> windows_;
  std::vector<SeriesWindow> past_;
};

std::vector<SequenceSteps> StepsOf(const SeriesData& data, ScoredFrom* from) {
  std::vector<SequenceSteps> steps;
  steps.reserve(data.sequences.size());
  for (const SeriesSequence& one : data.sequences) {
    steps.push_back({one.id, one.steps});
    if (from != nullptr) steps.back().before = from->Before(one);
  }
  return steps;
}

void AddAnswers(const KeptModel& model, const SeriesData& data, ScoredFrom& from, Scorer& scorer) {
  std::vector<ScoredWindow> windows;
  std::vector<SeriesWindow> past;
  for (int64_t s = 0; s < std::ssize(data.sequences); ++s) {
    past.push_back({s, 0, data.sequences[s].steps});
    const int64_t before = from.Before(data.sequences[s]);
    for (const AnsweredWindow& one : model.form.AnsweredWindows(data, s))
      windows.push_back({{one.window, std::max(one.answered, before - one.window.first)}});
  }
  scorer.Add(data, windows, past);
}

}  // namespace

SeriesScores ScoresOfCsv(const KeptModel& model, const std::filesystem::path& path, double share, const LaterCsv& csv,
                         const std::function<void(int64_t done, int64_t of)>& on_bytes, int64_t block,
                         const std::string& text) {
  ScoredFrom from(model, text);
  const LabelledStream labelled =
      OpenCsv(model, path, csv, block, /*scores=*/true, /*at_once=*/!text.empty() && model.form.Forecasts());
  std::optional<Scorer> scorer;
  std::optional<ForecastScorer> forecasts;
  while (std::optional<SeriesData> part = labelled.stream->Next()) {
    if (on_bytes) on_bytes(labelled.stream->read(), labelled.stream->size());
    RequireComputable(*part, model.form);
    if (!model.form.Forecasts()) {
      if (!scorer) scorer.emplace(model);
      AddAnswers(model, *part, from, *scorer);
    } else {
      if (forecasts && !labelled.steps)
        throw FileError(fmt::format("{}: it has more than {} bytes; give a file, which is read a part at a time",
                                    NameOfInput(path), MostDataBytes()));
      if (!forecasts) {
        const std::vector<SequenceSteps> steps = StepsOf(*part, text.empty() ? nullptr : &from);
        from.RequireInside();
        forecasts.emplace(model, part->name, labelled.steps ? *labelled.steps : steps, share);
      }
      forecasts->Add(*std::move(part));
    }
  }
  if (!forecasts && !scorer) throw FileError(NameOfInput(path) + ": it has no rows");
  from.RequireInside();
  SeriesScores scores = forecasts ? forecasts->Scores() : scorer->Scores();
  scores.notes = labelled.stream->Notes();
  return scores;
}

}  // namespace heed::lab
