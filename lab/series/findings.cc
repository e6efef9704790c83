#include "lab/series/findings.h"

#include <fmt/core.h>

#include "lab/runs/contender.h"

namespace heed::lab {

std::string SeriesEncoderFinding(const SeriesResult& result) {
  return RankingFinding(result.scores, result.told(), result.scores.OnePerEncoder(result.loss()));
}

std::string SeriesSchemeFinding(const SeriesResult& result) {
  return RankingFinding(result.scores, result.told(), Attending(result.scores.models()));
}

std::string SeriesBaselineFinding(const SeriesResult& result) {
  const SeriesBaseline& baseline = result.baseline;
  std::vector<std::string> better, worse, reached;
  for (const Contender& model : result.scores.Ranked(result.loss())) {
    const Spread loss = result.scores.Over(model, result.loss());
    if (loss.high < baseline.loss) {
      better.push_back(model.Phrase());
    } else if (loss.low > baseline.loss) {
      worse.push_back(model.Phrase());
    }
  }
  for (const Column& column : result.told()) {
    const double value = column == result.loss() ? baseline.loss : baseline.accuracy;
    reached.push_back(column.measure.Phrase({value, value, value}));
  }
  const std::string text = fmt::format("Without a model, the {} has {}.", baseline.name, Join(reached));
  if (better.size() == result.scores.models().size()) return text + " All models beat it with every seed.";
  return text +
         (better.empty() ? " No model beats it with every seed, which tells of these models and this training, not of what can "
                           "be foretold."
                         : fmt::format(" With every seed it is beaten by {}.", Join(better))) +
         (worse.empty() ? "" : fmt::format(" Worse with every seed: {}.", Join(worse)));
}

std::vector<Finding> SeriesConclusion(const SeriesResult& result) {
  return Answered({{"Which encoder?", SeriesEncoderFinding(result)},
                   {"Which positional encoding for attention?", SeriesSchemeFinding(result)},
                   {"Is it worth a model?", SeriesBaselineFinding(result)}});
}

}  // namespace heed::lab
