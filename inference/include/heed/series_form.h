// Turns labelled sequences into numbers for a model, by statistics of the training part that are saved with the model.
#ifndef HEED_SERIES_FORM_H_
#define HEED_SERIES_FORM_H_

#include <cstdint>
#include <iterator>
#include <span>
#include <string>
#include <vector>

#include "heed/calendar_terms.h"

namespace heed {

// Inputs of 0 and 1 after the features.
struct SeriesMarks {
  // Features that may lack values, in their order; the mark of each is 1 where its value is missing.
  std::vector<std::string> gaps = {};
  // Texts of text columns, in order; a mark is 1 where the column of this name holds the text of this name.
  std::vector<std::string> category_columns = {}, category_names = {};

  int64_t count() const { return std::ssize(gaps) + std::ssize(category_names); }
  int64_t texts() const;                        // columns of text
  std::vector<std::string> Categories() const;  // their names
  // The index of a text among those of a column, or -1.
  int64_t Category(const std::string& column, const std::string& text) const;
};

struct SeriesForm {
  std::string goal = "classification";  // or "regression", "forecast"
  std::string target, sequence, time;   // names of columns; empty where there are none
  std::vector<std::string> features, classes;
  bool each_step = false;  // each step has an answer, else a sequence has one
  bool has_times = false;  // steps have times
  bool has_dates = false;  // times are dates, in seconds since 1970 in UTC
  int64_t context = 32;    // of a forecast: steps of a window
  int64_t horizon = 1;     // of a forecast: predicted values after the window
  int64_t longest = 1024;  // a model reads the last so many steps of a sequence
  // Mean, deviation and typical change from one step to the next of each feature in the training part.
  std::vector<double> mean, deviation, change;
  double target_mean = 0, target_deviation = 1;  // of numeric targets
  double target_scale = 1;                       // target_deviation; for a forecast a typical change over the horizon
  double typical_step = 1;                       // the median difference of times
  SeriesMarks marks = {};
  std::vector<std::string> periods = {};  // of a forecast: of the calendar, whose terms are inputs
  std::string date_order;  // first field of dates such as 01/02/2000: "day", "month"; empty: such texts are no dates

  bool Classifies() const { return goal == "classification"; }
  bool Forecasts() const { return goal == "forecast"; }
  // Inputs of a model for a step: features, marks, terms of the calendar and, with times, one more.
  int64_t width() const { return std::ssize(features) + marks.count() + calendar().count() + (has_times ? 1 : 0); }
  CalendarTerms calendar() const { return {periods, /*harmonics=*/2, typical_step}; }
  int64_t columns() const { return std::ssize(features) + marks.texts(); }  // of a step that a caller gives
  int64_t numbers() const { return columns() + std::ssize(marks.gaps); }    // see FillFeatures
  int64_t outputs() const { return Forecasts() ? horizon : Classifies() ? std::ssize(classes) : 1; }  // of an answer
  int64_t Answered(int64_t steps) const { return each_step && !Forecasts() ? steps : 1; }  // answers of so many steps
  int64_t steps() const { return Forecasts() ? context : longest; }  // the most steps that a model reads at once
};

// Calls visit(name, field) for every field, by its name in a saved model's file.
template <class Form, class Visit>
void VisitFields(Form& form, const Visit& visit) {
  visit("goal", form.goal), visit("target", form.target), visit("sequence", form.sequence), visit("time", form.time);
  visit("features", form.features), visit("classes", form.classes);
  visit("each_step", form.each_step), visit("has_times", form.has_times), visit("has_dates", form.has_dates);
  visit("context", form.context), visit("horizon", form.horizon), visit("longest", form.longest);
  visit("mean", form.mean), visit("deviation", form.deviation), visit("change", form.change);
  visit("target_mean", form.target_mean), visit("target_deviation", form.target_deviation);
  visit("target_scale", form.target_scale), visit("typical_step", form.typical_step);
  visit("gaps", form.marks.gaps), visit("category_columns", form.marks.category_columns);
  visit("category_names", form.marks.category_names), visit("date_order", form.date_order);
  visit("periods", form.periods);
}

// Whether a saved model's file may lack the field, as models of earlier versions do.
bool MayLack(const std::string& field);

// Throws InvalidArgument, naming the field, for sizes that contradict each other and scales that are not positive.
void Validate(const SeriesForm& form);

// Writes a model's inputs for a step, [width()] without those of FillTime: each feature standardised, for a forecast its change
// since the step before in units of its typical change; then the marks. values, before: [numbers()], the step and the one
// before it, null at a sequence's first. They hold the features, NaN before the first known value, which gives 0; for each of
// marks.gaps 1 where the last value replaces a missing one, else 0; for each text column the index of its category, or NaN for
// none.
void FillFeatures(const SeriesForm& form, const double* values, const double* before, float* out);

// Writes the inputs that a step's time gives, behind those of FillFeatures: the terms of the calendar, then the logarithm of
// the time since the step before, in typical steps. before: the time of that step; null at a sequence's first, which gives 0.
// `out` is that of FillFeatures.
void FillTime(const SeriesForm& form, double time, const double* before, float* out);

// The times of the steps after a sequence, as many as `next` holds. times: of its last steps, at least one, in order. Times go
// on by form.typical_step. Dates a month, a quarter or years apart keep their day of the month, and the end of a month stays
// the end of a month: after 2024-01-31 and 2024-02-29 comes 2024-03-31. Dates of working days, at least six, leave out
// weekends. The last twelve times decide, of a shorter context as many as it has and one more.
void ContinueTimes(const SeriesForm& form, std::span<const double> times, std::span<double> next);

}  // namespace heed

#endif  // HEED_SERIES_FORM_H_
