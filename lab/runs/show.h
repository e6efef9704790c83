// Measurements to look at: tables, bars, curves.
#ifndef HEED_LAB_RUNS_SHOW_H_
#define HEED_LAB_RUNS_SHOW_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "lab/report/figure.h"
#include "lab/report/page.h"
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

}  // namespace heed::lab

#endif  // HEED_LAB_RUNS_SHOW_H_
