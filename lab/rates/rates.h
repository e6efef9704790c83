// Which learning rate each encoder wants: the same small models at every rate of a grid.
#ifndef HEED_LAB_RATES_RATES_H_
#define HEED_LAB_RATES_RATES_H_

#include <filesystem>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "lab/data/corpus.h"
#include "lab/rates/options.h"
#include "lab/report/page.h"
#include "lab/report/result_store.h"
#include "lab/runs/finding.h"
#include "lab/runs/measurements.h"

namespace heed::lab {

struct RatesResult {
  RateOptions options;
  std::vector<Measurements> rates;  // by rate: "loss" on validation text, nats per character, infinite where the run diverged
};

// Trains every model at every rate with every seed. Runs that the store holds, where there is one, are not repeated (DoRuns).
// Throws InvalidArgument that names the option, and Interruption on Ctrl-C.
RatesResult MeasureRates(const Corpus& corpus, const RateOptions& options, const ResultStore* store = nullptr);

// The rate at which a model's mean loss is the least. On an edge, the optimum may lie beyond the grid.
struct BestRate {
  SizedContender model;
  double rate;
  Spread loss;
  bool on_edge;
};
// By loss, the best first; models that diverged at every rate are left out.
std::vector<BestRate> BestRates(const RatesResult& result);

// Which rate suits which model; whether one rate would do for all, and what that costs.
std::vector<Finding> RatesConclusion(const RatesResult& result);
// Settings, conclusion, and by rate every model with its loss and runs.
nlohmann::ordered_json RatesJson(const RatesResult& result);
// Findings, the loss over the rate and a table: report.html, whose path it returns, rates.csv and rates.json. FileError.
std::filesystem::path WriteRates(const RatesResult& result, const std::string& text, const std::string& command,
                                 const std::filesystem::path& folder);

}  // namespace heed::lab

#endif  // HEED_LAB_RATES_RATES_H_
