// Sentences, tables and pictures of a contest.
#ifndef HEED_LAB_RUNS_CONTEST_PAGE_H_
#define HEED_LAB_RUNS_CONTEST_PAGE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "lab/report/figure.h"
#include "lab/report/page.h"
#include "lab/runs/contest.h"
#include "lab/runs/measurements.h"

namespace heed::lab {

// "one seed", "mean (least–greatest) of 3 seeds": what the cells of a table hold.
std::string SpreadInWords(int64_t seeds);
// "One seed.", "The band reaches from the least to the greatest of 3 seeds.": below a figure, after "The band reaches".
std::string SpreadNote(int64_t seeds, const std::string& mark);

// A column of a table, and its heading.
struct Heading {
  std::string text;
  Column column;
};
// A row a model, in the order given: its label, its parameters, a cell a heading; "n/a" where it does not reach.
Table ScoreTable(const std::string& caption, const Measurements& measured, const Models& models,
                 const std::vector<Heading>& headings);

// A number that needs no model, to show beside those that do.
struct Reference {
  std::string name;
  double value;
};
// A bar a model, the best first, with a mark for the spread over the seeds, then one a reference.
Figure BarFigure(const Measurements& measured, const Column& column, const std::vector<Reference>& references = {});

// A model over the places of a measure, where it reaches, with the band of its seeds.
Series Curve(const Measurements& measured, const Contender& model, const std::string& measure, const std::string& name);

// "17 s of one core", "600 steps": what each training was given.
std::string BudgetInWords(const ContestResult& result, double seconds);

// Which model leads, which are behind for sure or perhaps by chance, which were stopped, which diverged:
// "The LSTM leads with 1.402 nats per character; ..". `verdict` is one over result.entries.
std::string StandingFinding(const ContestResult& result, const std::vector<Judged>& verdict);
// The same with what each was given before it; of attention's positional encodings alone (empty for fewer than two).
std::string TimeFinding(const ContestResult& result, double seconds);
std::string SchemeFinding(const ContestResult& result);
// The models that may be the best, the leader and what is tied, as phrases in order of their losses.
std::vector<std::string> Running(const ContestResult& result);
// Which models to go on with: those in the running, `least` of the best at least, as --encoders and --positions name them.
struct Chosen {
  std::vector<std::string> encoders, positions;  // no positions where none attends
};
Chosen ToGoOnWith(const ContestResult& result, std::size_t least);
// What twice the training would bring, how well the first half of the curves predicts their ends, and which models more
// training harms. Empty without curves.
std::string GainFinding(const ContestResult& result);
// Which model to take when each is given so many times what it was given here, `given` in words, see OutlookOf; which others
// may be as good, and how far the curves may be off.
std::string OutlookFinding(const ContestResult& result, double times, const std::string& given);
// Which rates were tried and chosen, and which lie at an edge of those tried. Empty for a single rate.
std::string RateFinding(const ContestResult& result);
// The models with the fastest and the slowest step, as the pilot measured them, and what LibTorch's implementation explains of
// that; a difference below a tenth counts as none. Empty without a pilot.
std::string PaceFinding(const ContestResult& result);

// A dot a contender, the best first, named by its standing, with marks for the interval of its gap to the leader; then one a
// reference.
Figure StandingFigure(const ContestResult& result, const std::vector<Reference>& references);
// The same as a table: loss, gap, both intervals, standing, runs, steps, those of the best state, rate, gain of a doubled
// training.
Table StandingTable(const ContestResult& result, const std::string& caption);
// Losses on the validation part by rate, within the most steps that each was given.
Table RateTable(const ContestResult& result);
// The loss on the validation part over the steps of the first seed; nothing to draw without curves.
Figure GainFigure(const ContestResult& result);

}  // namespace heed::lab

#endif  // HEED_LAB_RUNS_CONTEST_PAGE_H_
