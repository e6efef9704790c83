#include "lab/series/score_sums.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace heed::lab {

ClassScores::ClassScores(int64_t classes)
    : classes_(classes), kept_(classes == 2 ? 1 : classes), of_it_(classes), told_(classes), both_(classes) {}

void ClassScores::Add(const double* probabilities, int64_t truth) {
  const auto said = std::max_element(probabilities, probabilities + classes_) - probabilities;
  loss_ -= std::log(probabilities[truth]);
  of_it_[truth] += 1, told_[said] += 1;
  if (said == truth) both_[truth] += 1;
  probabilities_.insert(probabilities_.end(), probabilities, probabilities + kept_);
  truths_.push_back(static_cast<int32_t>(truth));
}

NamedScores ClassScores::Numbers() const {
  const auto count = static_cast<double>(answers());
  double f1 = 0, occurring = 0;
  for (int64_t c = 0; c < classes_; ++c) {
    if (of_it_[c] > 0) occurring += 1, f1 += 2 * both_[c] / (of_it_[c] + told_[c]);
  }
  return {{"loss", loss_ / count},
          {"accuracy", std::accumulate(both_.begin(), both_.end(), 0.0) / count},
          {"macro_f1", f1 / occurring},
          {"auc", Area()}};
}

// Of two classes the area of one is that of the other.
double ClassScores::Area() const {
  double area = 0, areas = 0;
  for (int64_t c = 0; c < kept_; ++c) {
    if (of_it_[c] > 0 && of_it_[c] < static_cast<double>(answers())) areas += 1, area += AreaOf(c, c);
  }
  return areas == 0 ? NAN : area / areas;
}

// How often an answer of the class is more probable in a column than one of the rest, where equals count half.
double ClassScores::AreaOf(int64_t label, int64_t column) const {
  const auto probability = [&](uint32_t i) { return probabilities_[static_cast<std::size_t>(i) * kept_ + column]; };
  std::vector<uint32_t> order(truths_.size());
  std::iota(order.begin(), order.end(), 0U);
  std::ranges::sort(order, {}, probability);
  double ranks = 0;
  for (std::size_t first = 0; first < order.size();) {
    std::size_t end = first;
    while (end < order.size() && probability(order[end]) == probability(order[first])) ++end;
    const double rank = 0.5 * static_cast<double>(first + end + 1);  // from 1, in the mean
    for (; first < end; ++first) {
      if (truths_[order[first]] == label) ranks += rank;
    }
  }
  const double count = of_it_[label], rest = static_cast<double>(answers()) - count;
  return (ranks - count * (count + 1) / 2) / (count * rest);
}

void ValueScores::Add(double truth, double answer, double low, double high, double naive) {
  const double beside = truth - answer, size = std::abs(beside);
  const auto pinball = [](double above, double quantile) { return std::max(quantile * above, (quantile - 1) * above); };
  ++answers_;
  squares_ += beside * beside, sizes_ += size, scaled_ += size / naive;
  pinball_ += (pinball(beside - low, 0.1) + pinball(beside - high, 0.9)) / 2;
  covered_ += beside >= low && beside <= high ? 1 : 0;
  const double from_mean = truth - mean_;
  mean_ += from_mean / static_cast<double>(answers_);
  spread_ += from_mean * (truth - mean_);
}

NamedScores ValueScores::Numbers() const {
  const auto count = static_cast<double>(answers_);
  NamedScores numbers = {{"mse", squares_ / count}, {"mae", sizes_ / count}};
  if (forecasts_) {
    numbers.emplace_back("mase", scaled_ / count), numbers.emplace_back("pinball", pinball_ / count);
  } else {
    numbers.emplace_back("r2", 1 - squares_ / spread_);
  }
  numbers.emplace_back("coverage", covered_ / count);
  return numbers;
}

}  // namespace heed::lab
