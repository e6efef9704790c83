// Kept methods: those that need no more than the window itself stand here.
#include <algorithm>
#include <cmath>
#include <utility>

#include "heed/error.h"
#include "heed/portable_math.h"
#include "heed/series_cells.h"
#include "heed/shown_name.h"
#include "series/answerer.h"

namespace heed {
namespace {

// Shares of classes; the mean of values; the last value of a forecast.
class SimpleMethod final : public WindowAnswerer {
 public:
  SimpleMethod(const ConfigReader& config, const ConfigReader::Json& settings, const SeriesForm& form) {
    if (!form.Classifies()) return;
    shares_ = config.Numbers(settings, "shares");
    const bool fine = std::ssize(shares_) == form.outputs() &&
                      std::ranges::all_of(shares_, [](double share) { return share > 0 && share < 1; });
    if (!fine) config.Fail("'shares' does not fit this kind of method");
  }
  void AnswerBatch(const SeriesBatch&, View<double, 2> out, ModelWorkspace&, Executor&) const override {
    for (int64_t i = 0; i < out.extent[0]; ++i) {
      for (int64_t o = 0; o < out.extent[1]; ++o) out(i, o) = shares_.empty() ? 0 : portable::Log(shares_[o]);
    }
  }

 private:
  std::vector<double> shares_;
};

// Of the cells of a row.
// A file without 'steps' has summaries instead of steps.
RowOf RowOfIn(const ConfigReader& config, const ConfigReader::Json& settings) {
  const bool summaries = config.Flag(settings, "summaries");
  const bool steps = ConfigReader::Has(settings, "steps") ? config.Flag(settings, "steps") : !summaries;
  if (!steps && !summaries) config.Fail("'steps' or 'summaries': expected that one of them is true");
  return !summaries ? RowOf::kSteps : steps ? RowOf::kBoth : RowOf::kSummary;
}

class RowMethod : public WindowAnswerer {
 public:
  RowMethod(const ConfigReader& config, const ConfigReader::Json& settings, const SeriesForm& form)
      : cells_({form.Forecasts(), form.each_step, form.width(), std::ssize(form.features), form.steps()},
               RowOfIn(config, settings), config.Flag(settings, "lengths_differ")),
        each_step_(form.each_step && !form.Forecasts()),
        least_steps_(form.Forecasts() ? form.context : 1) {
    if (form.each_step && config.Flag(settings, "summaries")) config.Fail("'summaries' does not fit this kind of method");
  }
  int64_t LeastSteps() const final { return least_steps_; }
  void AnswerBatch(const SeriesBatch& batch, View<double, 2> out, ModelWorkspace& workspace, Executor&) const final {
    const ModelWorkspace::Frame frame(workspace);
    auto* const row = workspace.Take<double>(cells_.cells());
    for (int64_t w = 0; w < batch.rows; ++w) {
      const int64_t answers = each_step_ ? batch.lengths[w] : 1;
      for (int64_t step = 0; step < answers; ++step) {
        cells_.Fill(&batch.features(w, 0, 0), batch.lengths[w], step, row);
        AnswerRow(row, &out(each_step_ ? w * batch.steps + step : w, 0), workspace);
      }
    }
  }

 protected:
  int64_t cells() const { return cells_.cells(); }
  virtual void AnswerRow(const double* row, double* answer, ModelWorkspace& workspace) const = 0;

 private:
  SeriesCells cells_;
  bool each_step_;
  int64_t least_steps_;
};

// (x - mean) * factor times W [cells, outputs], plus b.
class LinearMethod final : public RowMethod {
 public:
  LinearMethod(const ConfigReader& config, const ConfigReader::Json& settings, const KeptArrays& arrays, const SeriesForm& form)
      : RowMethod(config, settings, form),
        mean_(arrays.Read<double>("mean", {cells()})),
        factor_(arrays.Read<double>("factor", {cells()})),
        W_(arrays.Read<double>("W", {cells(), form.outputs()})),
        b_(arrays.Read<double>("b", {form.outputs()})) {}

 private:
  void AnswerRow(const double* row, double* answer, ModelWorkspace&) const override {
    std::ranges::copy(b_, answer);
    const auto outputs = std::ssize(b_);
    for (int64_t c = 0; c < cells(); ++c) {
      const double x = (row[c] - mean_[c]) * factor_[c];
      for (int64_t o = 0; o < outputs; ++o) answer[o] += x * W_[c * outputs + o];
    }
  }

  std::vector<double> mean_, factor_, W_, b_;
};

// Distances that differ by less, as a share of the squares that they are made of, are equal: they were rounded in some order.
constexpr double kRounding = 1e-12;

// The mean of the nearest rows of X [examples, cells] and of all that are as far as the last of them; of classes their counts
// and, with the weight of `prior` rows, the shares of all.
class NeighbourMethod final : public RowMethod {
 public:
  NeighbourMethod(const ConfigReader& config, const ConfigReader::Json& settings, const KeptArrays& arrays,
                  const SeriesForm& form)
      : RowMethod(config, settings, form),
        outputs_(form.outputs()),
        examples_(arrays.Rows("X")),
        X_(arrays.Read<double>("X", {examples_, cells()})),
        kept_(config.Integer(settings, "neighbours", 1, examples_)),
        prior_(ConfigReader::Has(settings, "prior") ? config.Number(settings, "prior") : 1) {
    if (!(prior_ > 0 && prior_ <= 1)) config.Fail("'prior': expected a number above 0, at most 1");
    if (!form.Classifies()) {
      y_ = arrays.Read<double>("y", {examples_, outputs_});
      return;
    }
    classes_ = arrays.Read<int64_t>("y", {examples_});
    shares_.assign(static_cast<std::size_t>(outputs_), 1.0);
    for (const int64_t label : classes_) {
      if (label < 0 || label >= outputs_) arrays.Refuse("y");
      shares_[label] += 1;
    }
    for (double& share : shares_) share *= prior_ / static_cast<double>(examples_ + outputs_);
  }

 private:
  void AnswerRow(const double* row, double* answer, ModelWorkspace& workspace) const override {
    const ModelWorkspace::Frame frame(workspace);
    auto* const distance = workspace.Take<double>(examples_);
    auto* const rounding = workspace.Take<double>(examples_);
    auto* const sorted = workspace.Take<double>(examples_);
    double own = 0;
    for (int64_t c = 0; c < cells(); ++c) own += row[c] * row[c];
    for (int64_t e = 0; e < examples_; ++e) {
      const double* const example = X_.data() + e * cells();
      double square = 0, product = 0;
      for (int64_t c = 0; c < cells(); ++c) square += example[c] * example[c], product += example[c] * row[c];
      // The square of the row itself moves no distance past another.
      distance[e] = sorted[e] = square - 2 * product;
      rounding[e] = kRounding * (square + own);
    }
    std::nth_element(sorted, sorted + kept_ - 1, sorted + examples_);
    for (int64_t o = 0; o < outputs_; ++o) answer[o] = shares_.empty() ? 0 : shares_[o];
    double count = 0;
    for (int64_t e = 0; e < examples_; ++e) {
      if (!(distance[e] - rounding[e] <= sorted[kept_ - 1])) continue;
      count += 1;
      if (!classes_.empty()) answer[classes_[e]] += 1;
      for (int64_t o = 0; classes_.empty() && o < outputs_; ++o) answer[o] += y_[e * outputs_ + o];
    }
    for (int64_t o = 0; o < outputs_; ++o)
      answer[o] = classes_.empty() ? answer[o] / count : portable::Log(answer[o] / (count + prior_));
  }

  int64_t outputs_, examples_;
  std::vector<double> X_;
  int64_t kept_;
  double prior_;
  std::vector<double> y_, shares_;
  std::vector<int64_t> classes_;
};

}  // namespace

std::unique_ptr<SeriesModel::Answerer> ReadMethod(const ConfigReader& config, const KeptArrays& arrays,
                                                  const SeriesForm& form) {
  const ConfigReader::Json& method = config.Object(config.file(), "method");
  const ConfigReader::Json& settings = config.Object(method, "settings");
  const std::string kind = config.Text(method, "kind");
  if (kind == "simple") return std::make_unique<SimpleMethod>(config, settings, form);
  if (auto past = ReadPastMethod(kind, config, settings, form)) return past;
  if (kind != "linear" && kind != "neighbours")
    config.Fail("the method " + QuotedName(kind) +
                " is unknown; expected simple, linear, neighbours, season, smoothing or calendar");
  if (kind == "linear") return std::make_unique<LinearMethod>(config, settings, arrays, form);
  return std::make_unique<NeighbourMethod>(config, settings, arrays, form);
}

}  // namespace heed
