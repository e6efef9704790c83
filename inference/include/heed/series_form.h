// How labelled sequences become numbers for a model: what was learned of the training part, and is kept with the model.
#ifndef HEED_SERIES_FORM_H_
#define HEED_SERIES_FORM_H_

#include <cstdint>
#include <iterator>
#include <string>
#include <vector>

namespace heed {

// Numbers of 0 and 1 that a model reads beside the features.
struct SeriesMarks {
  // Features that may lack values, in their order: a mark of each says whether its value is missing.
  std::vector<std::string> gaps = {};
  // Of columns of text, one behind the other: a mark says whether the column of that name holds the text of that name.
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
  bool has_times = false;  // steps stand at times
  bool has_dates = false;  // which are seconds since 1970 began in UTC
  int64_t context = 32;    // of a forecast: steps of a window
  int64_t horizon = 1;     // of a forecast: values foretold after the window
  int64_t longest = 1024;  // steps of a sequence that are read, the last ones
  // Of each feature in the training part: its mean, its deviation, and a typical change from one step to the next.
  std::vector<double> mean, deviation, change;
  double target_mean = 0, target_deviation = 1;  // of values
  double target_scale = 1;                       // target_deviation; of a forecast a typical change over the horizon
  double typical_step = 1;                       // the median difference of times
  SeriesMarks marks = {};
  std::string date_order;  // what comes first in dates as 01/02/2000: "day", "month"; empty: such are no dates

  bool Classifies() const { return goal == "classification"; }
  bool Forecasts() const { return goal == "forecast"; }
  // Numbers that a model reads of a step: features, marks, and where there are times one more.
  int64_t width() const { return std::ssize(features) + marks.count() + (has_times ? 1 : 0); }
  int64_t columns() const { return std::ssize(features) + marks.texts(); }  // that are given of a step
  int64_t numbers() const { return columns() + std::ssize(marks.gaps); }    // see FillFeatures
  int64_t outputs() const { return Forecasts() ? horizon : Classifies() ? std::ssize(classes) : 1; }  // of an answer
  int64_t Answered(int64_t steps) const { return each_step && !Forecasts() ? steps : 1; }  // answers of so many steps
  int64_t steps() const { return Forecasts() ? context : longest; }  // that a model reads at once, at most
};

// Calls visit(name, field) for every field by its name in the file of a kept model.
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
}

// Whether a file of a kept model may lack the field: models of versions without it have none of what it tells.
bool MayLack(const std::string& field);

// Throws InvalidArgument that names the field: sizes that contradict each other, scales that are not positive.
void Validate(const SeriesForm& form);

// What a model reads of a step, [width()] without the time: each feature standardised, of a forecast its change since the step
// before in units of its typical change; then the marks. values, before: [numbers()], the step and the one before it, null at a
// sequence's first: the features, NaN where none is known yet, which gives 0; of each of marks.gaps 1 where the value is
// missing and the last one stands for it, else 0; of each column of text the index of its category, or NaN for none of them.
void FillFeatures(const SeriesForm& form, const double* values, const double* before, float* out);

}  // namespace heed

#endif  // HEED_SERIES_FORM_H_
