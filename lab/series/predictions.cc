#include "lab/series/predictions.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include <ATen/ATen.h>
#include <fmt/core.h>

#include "heed/error.h"
#include "heed/safetensors.h"
#include "lab/report/figure.h"
#include "lab/series/date.h"
#include "lab/series/form.h"

namespace heed::lab {
namespace {

constexpr int64_t kSequencesAtOnce = 256;

// Steps behind the end of each sequence, for methods that look at the calendar of what they foretell. Nothing is known of them
// but their times.
SeriesData WithFuture(SeriesData data, const SeriesForm& form) {
  for (SeriesSequence& sequence : data.sequences) {
    sequence.targets.resize(sequence.targets.size() + static_cast<std::size_t>(form.horizon), NAN);
    if (!form.has_times) continue;
    std::vector<double> next(static_cast<std::size_t>(form.horizon));
    ContinueTimes(form, sequence.times, next);
    sequence.times.insert(sequence.times.end(), next.begin(), next.end());
  }
  return data;
}

// A column that the data do not have: "low", or "TARGET low" where a column of the data is called so.
std::string Added(const SeriesForm& form, const std::string& name) {
  const bool taken = name == form.target || name == form.sequence || name == form.time;
  return taken ? form.target + " " + name : name;
}

std::vector<std::string> ColumnsOf(const SeriesForm& form) {
  std::vector<std::string> columns = {form.sequence.empty() ? Added(form, "sequence") : form.sequence};
  if (form.Forecasts()) {
    columns.push_back(Added(form, "ahead"));
    if (form.has_times) columns.push_back(form.time);
  } else if (form.each_step) {
    columns.push_back(Added(form, "row"));
  }
  columns.push_back(form.target);
  for (const std::string& name : form.classes) columns.push_back("p " + name);
  if (!form.Classifies()) columns.push_back(Added(form, "low")), columns.push_back(Added(form, "high"));
  return columns;
}

// The rows for an answer at a step, from 0, or to a whole sequence: of a forecast one for each value, whose times the sequence
// has behind its steps.
void AddRows(const KeptModel& model, const SeriesSequence& sequence, std::optional<int64_t> step, const double* answer,
             std::vector<std::vector<Predictions::Cell>>& rows) {
  const SeriesForm& form = model.form;
  for (int64_t h = 0; h < (form.Forecasts() ? form.horizon : 1); ++h) {
    std::vector<Predictions::Cell>& row = rows.emplace_back();
    row.emplace_back(sequence.id);
    if (form.Forecasts()) {
      row.emplace_back(h + 1);
      if (form.has_dates) row.emplace_back(MomentOf(sequence.times[sequence.steps + h]));
      if (form.has_times && !form.has_dates) row.emplace_back(sequence.times[sequence.steps + h]);
    }
    if (step) row.emplace_back(sequence.rows.empty() ? *step : sequence.rows[*step]);
    if (form.Classifies()) {
      const double* const end = answer + form.outputs();
      row.emplace_back(form.classes[std::max_element(answer, end) - answer]);
      row.insert(row.end(), answer, end);
    } else {
      row.insert(row.end(), {answer[h], answer[h] + model.low[h], answer[h] + model.high[h]});
    }
  }
}

void RequireSteps(const KeptModel& model, const SeriesData& data) {
  const bool whole = model.method.kind == "linear" || model.method.kind == "neighbours";
  for (const SeriesSequence& sequence : data.sequences) {
    if (!model.form.Forecasts() || !whole || sequence.steps >= model.form.context) continue;
    throw FileError(fmt::format("{}: sequence {} has {} steps; {} forecasts from {}", data.name, ShownName(sequence.id),
                                sequence.steps, model.name, model.form.context));
  }
}

}  // namespace

Predictions Predict(const KeptModel& model, const SeriesData& data) {
  RequireComputable(data, model.form);
  RequireSteps(model, data);
  std::vector<SeriesWindow> past;
  for (int64_t s = 0; s < std::ssize(data.sequences); ++s) past.push_back({s, 0, data.sequences[s].steps});
  const SeriesData known = model.form.Forecasts() ? WithFuture(data, model.form) : data;
  const SeriesAnswers answers = AnswersOf(model, known, past);
  Predictions predictions{ColumnsOf(model.form), {}, {}};
  predictions.answers = std::ranges::find(predictions.columns, model.form.target) - predictions.columns.begin();
  const int64_t count = std::ssize(data.sequences);
  for (int64_t first = 0; first < count; first += kSequencesAtOnce) {
    const int64_t end = std::min(count, first + kSequencesAtOnce);
    std::vector<SeriesWindow> windows;
    std::vector<int64_t> answered;
    for (int64_t s = first; s < end; ++s) {
      for (const AnsweredWindow& one : model.form.AnsweredWindows(data, s))
        windows.push_back(one.window), answered.push_back(one.answered);
    }
    const at::Tensor some = answers(windows).contiguous();
    const double* answer = some.const_data_ptr<double>();
    for (std::size_t i = 0; i < windows.size(); ++i) {
      const bool steps = model.form.each_step && !model.form.Forecasts();
      for (int64_t step = 0; step < (steps ? windows[i].steps : 1); ++step, answer += model.form.outputs()) {
        if (step < answered[i]) continue;
        AddRows(model, known.sequences[windows[i].sequence], steps ? std::optional(windows[i].first + step) : std::nullopt,
                answer, predictions.rows);
      }
    }
  }
  return predictions;
}

std::string Predictions::Csv(bool header) const {
  CsvText csv;
  if (header) csv.Line(columns);
  for (const std::vector<Cell>& row : rows) {
    std::vector<std::string> cells;
    cells.reserve(row.size());
    for (const Cell& cell : row) {
      const auto* const number = std::get_if<double>(&cell);
      cells.push_back(number != nullptr && std::ssize(cells) >= answers
                          ? fmt::format("{:.7g}", *number)
                          : std::visit([](const auto& value) { return CsvText::Cell(value); }, cell));
    }
    csv.Line(cells);
  }
  return csv.text();
}

nlohmann::ordered_json Predictions::Json() const {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const std::vector<Cell>& row : rows) {
    nlohmann::ordered_json one = nlohmann::ordered_json::object();
    for (std::size_t i = 0; i < row.size(); ++i) std::visit([&](const auto& value) { one[columns[i]] = value; }, row[i]);
    list.push_back(std::move(one));
  }
  return list;
}

}  // namespace heed::lab
