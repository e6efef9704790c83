#include "lab/study/measurements.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace heed::lab {

bool ModelResult::Reaches(std::size_t length) const { return std::isfinite(runs.front().losses[length]); }

Spread ModelResult::Loss(std::size_t length) const {
  std::vector<double> losses;
  losses.reserve(runs.size());
  for (const StudyRun& run : runs) losses.push_back(run.losses[length]);
  return SpreadOf(losses);
}

Spread ModelResult::TokensPerSecond() const {
  std::vector<double> speeds;
  speeds.reserve(runs.size());
  for (const StudyRun& run : runs) speeds.push_back(run.tokens_per_second);
  return SpreadOf(speeds);
}

Gap GapBetween(const ModelResult& a, const ModelResult& b, std::size_t length) {
  std::vector<double> differences;
  for (std::size_t i = 0; i < a.runs.size(); ++i) differences.push_back(b.runs[i].losses[length] - a.runs[i].losses[length]);
  const Spread loss = SpreadOf(differences);
  return {loss, differences.size() > 1 && loss.low * loss.high > 0};
}

std::vector<const ModelResult*> Ranked(const std::vector<ModelResult>& models, std::size_t length) {
  std::vector<const ModelResult*> ranked;
  for (const ModelResult& model : models) {
    if (model.Reaches(length)) ranked.push_back(&model);
  }
  std::stable_sort(ranked.begin(), ranked.end(), [length](const ModelResult* a, const ModelResult* b) {
    return a->Loss(length).mean < b->Loss(length).mean;
  });
  return ranked;
}

std::vector<ModelResult> Attending(const std::vector<ModelResult>& models) {
  std::vector<ModelResult> attending;
  std::copy_if(models.begin(), models.end(), std::back_inserter(attending), [](const auto& m) { return m.model.attends(); });
  return attending;
}

std::vector<ModelResult> OnePerEncoder(const std::vector<ModelResult>& models) {
  std::vector<ModelResult> chosen;
  const std::vector<ModelResult> attending = Attending(models);
  if (!attending.empty()) chosen.push_back(*Ranked(attending).front());
  std::copy_if(models.begin(), models.end(), std::back_inserter(chosen), [](const auto& m) { return !m.model.attends(); });
  return chosen;
}

}  // namespace heed::lab
