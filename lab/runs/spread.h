// A measurement over the seeds: its mean, least and greatest.
#ifndef HEED_LAB_RUNS_SPREAD_H_
#define HEED_LAB_RUNS_SPREAD_H_

#include <cstdint>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace heed::lab {

struct Spread {
  double mean = 0, low = 0, high = 0;
};
// All of at least one value.
double MeanOf(const std::vector<double>& values);
std::vector<double> MeanOf(const std::vector<std::vector<double>>& rows);  // of at least one, place by place
Spread SpreadOf(const std::vector<double>& values);

nlohmann::ordered_json ToJson(const Spread& spread);
// JSON has no infinity and no NaN.
nlohmann::ordered_json NumberOrNull(double value);

// "seed 0", "seeds 0 to 2": of runs with seeds first, first + 1, ..; at least one.
std::string SeedsOf(uint64_t first, int64_t count);

}  // namespace heed::lab

#endif  // HEED_LAB_RUNS_SPREAD_H_
