#include "lab/series/findings.h"

#include <algorithm>

#include <fmt/core.h>

namespace heed::lab {
namespace {

// Losses in the target's own units may have any size.
std::string Number(double value) { return fmt::format("{:.4g}", value); }

std::string Describe(const Spread& spread, bool digits) {
  if (digits) return heed::lab::Describe(spread, 3);
  if (spread.low == spread.high) return Number(spread.mean);
  return fmt::format("{} ({} to {})", Number(spread.mean), Number(spread.low), Number(spread.high));
}

// How far b is behind a. Runs of one seed saw the same sequences in the same order, so they are compared seed by seed.
std::string Behind(const SeriesModelResult& a, const SeriesModelResult& b) {
  std::vector<double> differences;
  for (std::size_t i = 0; i < a.runs.size(); ++i) differences.push_back(b.runs[i].loss - a.runs[i].loss);
  const Spread gap = SpreadOf(differences);
  const std::string next = b.model.Phrase();
  if (a.runs.size() == 1) return fmt::format("{} follows {} behind, with one seed each", next, Number(gap.mean));
  if (gap.low > 0) {
    return fmt::format("{} follows {} behind ({} to {} seed by seed)", next, Number(gap.mean), Number(gap.low),
                       Number(gap.high));
  }
  return fmt::format("{} cannot be told apart from it: {} behind on average, but {} to {} seed by seed", next, Number(gap.mean),
                     Number(gap.low), Number(gap.high));
}

std::string Ranking(const SeriesResult& result, const std::vector<SeriesModelResult>& models) {
  const std::vector<const SeriesModelResult*> ranked = Ranked(models);
  if (ranked.size() < 2) return {};
  std::string text = fmt::format("{} is best with {}; {}.", Sentence(ranked[0]->model.Phrase()),
                                 DescribeLoss(result, *ranked[0]), Behind(*ranked[0], *ranked[1]));
  if (ranked.size() > 2) {
    text += fmt::format(" Of these {}, {} is last with {}.", ranked.size(), ranked.back()->model.Phrase(),
                        DescribeLoss(result, *ranked.back()));
  }
  return text;
}

std::vector<SeriesModelResult> Attending(const SeriesResult& result) {
  std::vector<SeriesModelResult> models;
  std::copy_if(result.models.begin(), result.models.end(), std::back_inserter(models),
               [](const SeriesModelResult& m) { return m.model.attends(); });
  return models;
}

}  // namespace

std::vector<const SeriesModelResult*> Ranked(const std::vector<SeriesModelResult>& models) {
  std::vector<const SeriesModelResult*> ranked;
  ranked.reserve(models.size());
  for (const SeriesModelResult& model : models) ranked.push_back(&model);
  std::stable_sort(ranked.begin(), ranked.end(),
                   [](const SeriesModelResult* a, const SeriesModelResult* b) { return a->Loss().mean < b->Loss().mean; });
  return ranked;
}

std::string DescribeLoss(const SeriesResult& result, const SeriesModelResult& model) {
  if (!result.Classifies()) return "a mean squared error of " + Describe(model.Loss(), false);
  return fmt::format("a loss of {} nats and an accuracy of {}", Describe(model.Loss(), true), Describe(model.Accuracy(), true));
}

std::string SeriesEncoderFinding(const SeriesResult& result) {
  std::vector<SeriesModelResult> models;
  const std::vector<SeriesModelResult> attending = Attending(result);
  if (!attending.empty()) models.push_back(*Ranked(attending).front());
  std::copy_if(result.models.begin(), result.models.end(), std::back_inserter(models),
               [](const SeriesModelResult& m) { return !m.model.attends(); });
  return Ranking(result, models);
}

std::string SeriesSchemeFinding(const SeriesResult& result) { return Ranking(result, Attending(result)); }

std::string SeriesBaselineFinding(const SeriesResult& result) {
  std::vector<std::string> better, worse;
  for (const SeriesModelResult* model : Ranked(result.models)) {
    const Spread loss = model->Loss();
    if (loss.high < result.baseline.loss) {
      better.push_back(model->model.Phrase());
    } else if (loss.low > result.baseline.loss) {
      worse.push_back(model->model.Phrase());
    }
  }
  std::string text = fmt::format(
      "Without a model, the {} has {}", result.baseline.name,
      result.Classifies()
          ? fmt::format("a loss of {:.3f} nats and an accuracy of {:.3f}.", result.baseline.loss, result.baseline.accuracy)
          : fmt::format("a mean squared error of {}.", Number(result.baseline.loss)));
  if (better.size() == result.models.size()) return text + " All models beat it with every seed.";
  text += better.empty() ? " No model beats it with every seed."
                         : fmt::format(" With every seed it is beaten by {}.", Join(better));
  if (!worse.empty()) text += fmt::format(" Worse with every seed: {}.", Join(worse));
  return text;
}

std::vector<SeriesAnswer> SeriesConclusion(const SeriesResult& result) {
  std::vector<SeriesAnswer> answers = {{"Which encoder?", SeriesEncoderFinding(result)},
                                       {"Which notion of order for attention?", SeriesSchemeFinding(result)},
                                       {"Is it worth a model?", SeriesBaselineFinding(result)}};
  std::erase_if(answers, [](const SeriesAnswer& answer) { return answer.answer.empty(); });
  return answers;
}

}  // namespace heed::lab
