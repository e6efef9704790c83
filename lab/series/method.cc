#include "lab/series/method.h"

#include <algorithm>
#include <string>

#include <ATen/ATen.h>
#include <fmt/core.h>

#include "heed/error.h"
#include "heed/safetensors.h"
#include "lab/series/calendar.h"
#include "lab/series/examples.h"
#include "lab/series/linear.h"
#include "lab/series/neighbours.h"
#include "lab/series/season.h"
#include "lab/series/smoothing.h"

namespace heed::lab {
namespace {

// Of heed/past_forecasts.h.
template <class Past>
Past PastMethodIn(const KeptMethod& method) {
  Past past;
  VisitFields(past, [&](const char* name, auto& field) { method.settings.at(name).get_to(field); });
  return past;
}

SeriesAnswers SimpleAnswers(const KeptMethod& method, const SeriesForm& form, const SeriesData& data) {
  std::vector<double> shares;
  if (form.Classifies()) method.settings.at("shares").get_to(shares);
  return [&form, &data, row = at::tensor(shares, at::kDouble)](const std::vector<SeriesWindow>& windows) {
    const int64_t scored = form.Answers(windows);
    if (form.Classifies()) return row.expand({scored, row.size(0)}).contiguous();
    at::Tensor answers = at::full({scored, form.outputs()}, form.target_mean, at::kDouble);
    for (int64_t i = 0; form.Forecasts() && i < scored; ++i)
      answers[i].fill_(data.sequences[windows[i].sequence].targets[windows[i].end() - 1]);
    return answers;
  };
}

// A file without 'steps' has summaries instead of steps.
RowOf RowOfIn(const KeptMethod& method) {
  const bool summaries = method.settings.at("summaries"), steps = method.settings.value("steps", !summaries);
  return !summaries ? RowOf::kSteps : steps ? RowOf::kBoth : RowOf::kSummary;
}

SeriesAnswers RowAnswers(const KeptMethod& method, const SeriesForm& form, const SeriesData& data) {
  const SeriesRows rows(form, RowOfIn(method), method.settings.at("lengths_differ"));
  const int64_t classes = form.Classifies() ? form.outputs() : 0;
  const Method answer = method.kind == "linear" ? LinearAnswers(method.arrays, classes > 0)
                                                : NeighbourAnswers(method.arrays, method.settings.at("neighbours"),
                                                                   method.settings.value("prior", 1.0), classes);
  return [=, &form, &data](const std::vector<SeriesWindow>& windows) {
    std::vector<at::Tensor> answers;
    form.ForEach(data, windows, Targets::kNone, [&](const SeriesBatch& batch) {
      ForEachRow(rows, batch, [&](const Examples& some) { answers.push_back(answer(some.X)); });
    });
    return InOwnUnits(form, data, windows, at::cat(answers));
  };
}

// Of data in which no sequence is long enough for the method. A shorter one beside a long one is forecast as in a study:
// without a season, or with a flat curve.
[[noreturn]] void TooShort(const SeriesData& data, const std::string& needs) {
  throw FileError(fmt::format("{}: its longest sequence has {} steps; {}", data.name, data.Longest(), needs));
}

void RequireLogarithms(const SeriesData& data) {
  for (const SeriesSequence& sequence : data.sequences) {
    for (int64_t step = 0; step < sequence.steps; ++step) {
      if (sequence.targets[step] > 0) continue;
      throw FileError(data.Place(sequence, step, data.target) +
                      fmt::format("{} has no logarithm, and the method was fitted to logarithms", sequence.targets[step]));
    }
  }
}

Forecaster SeasonIn(const KeptMethod& method, const SeriesData& data) {
  const int64_t season = PastMethodIn<RepeatedSeason>(method).season;
  return [&data, season, foretell = LastSeason(data, season)](const SeriesWindow& window, std::vector<double>& values) {
    if (window.end() < season) {
      throw FileError(fmt::format("{}: sequence {} has {} steps; the last season needs {}", data.name,
                                  ShownName(data.sequences[window.sequence].id), window.end(), season));
    }
    foretell(window, values);
  };
}

Forecaster SmoothingIn(const KeptMethod& method, const SeriesForm& form, const SeriesData& data,
                       const std::vector<SeriesWindow>& past) {
  const auto smoothing = PastMethodIn<Smoothing>(method);
  int64_t longest = 0;
  for (const SeriesWindow& part : past) longest = std::max(longest, part.steps);
  if (smoothing.season > 1 && longest < 2 * smoothing.season)
    TooShort(data, fmt::format("Holt-Winters with a season of {} needs {}", smoothing.season, 2 * smoothing.season));
  if (smoothing.logs) RequireLogarithms(data);
  return SmoothingForecaster(data, form.target_scale, smoothing, past);
}

Forecaster CalendarIn(const KeptMethod& method, const SeriesForm& form, const SeriesData& data,
                      const std::vector<SeriesWindow>& past) {
  const auto calendar = PastMethodIn<Calendar>(method);
  double longest = 0;
  for (const SeriesWindow& part : past) {
    const std::vector<double>& times = data.sequences[part.sequence].times;
    if (part.steps > 0) longest = std::max(longest, times[part.steps - 1] - times[0]);
  }
  if (const std::string* const unseen = PeriodUnseen(calendar, longest))
    TooShort(data, fmt::format("its calendar needs {} times a {}", kPeriodsSeen, *unseen));
  if (calendar.logs) RequireLogarithms(data);
  return CalendarForecaster(data, form.target_scale, form.outputs(), calendar, past);
}

Forecaster ForecasterOf(const KeptMethod& method, const SeriesForm& form, const SeriesData& data,
                        const std::vector<SeriesWindow>& past) {
  if (method.kind == "season") return SeasonIn(method, data);
  return method.kind == "smoothing" ? SmoothingIn(method, form, data, past) : CalendarIn(method, form, data, past);
}

}  // namespace

at::Tensor InOwnUnits(const SeriesForm& form, const SeriesData& data, const std::vector<SeriesWindow>& windows,
                      const at::Tensor& answers) {
  if (form.Classifies()) return answers.to(at::kDouble).exp();
  at::Tensor values = answers.to(at::kDouble) * form.target_scale;
  if (!form.Forecasts()) return values + form.target_mean;
  std::vector<double> last;
  last.reserve(windows.size());
  for (const SeriesWindow& window : windows) last.push_back(data.sequences[window.sequence].targets[window.end() - 1]);
  return values + at::tensor(last, at::kDouble).unsqueeze(1);
}

SeriesAnswers AnswersOf(const KeptMethod& method, const SeriesForm& form, const SeriesData& data,
                        const std::vector<SeriesWindow>& past) {
  if (method.kind == "simple") return SimpleAnswers(method, form, data);
  if (method.kind == "linear" || method.kind == "neighbours") return RowAnswers(method, form, data);
  return
      [outputs = form.outputs(), foretell = ForecasterOf(method, form, data, past)](const std::vector<SeriesWindow>& windows) {
        at::Tensor answers = at::empty({std::ssize(windows), outputs}, at::kDouble);
        std::vector<double> values(outputs);
        for (int64_t i = 0; i < std::ssize(windows); ++i) {
          foretell(windows[i], values);
          std::ranges::copy(values, answers.mutable_data_ptr<double>() + i * outputs);
        }
        return answers;
      };
}

}  // namespace heed::lab
