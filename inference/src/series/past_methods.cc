// Kept methods that look at a sequence's whole past.
#include <algorithm>
#include <cmath>
#include <type_traits>
#include <utility>

#include "heed/error.h"
#include "heed/past_forecasts.h"
#include "heed/shape_text.h"
#include "series/answerer.h"

namespace heed {
namespace {

std::string Steps(int64_t count) { return std::to_string(count) + (count == 1 ? " step" : " steps"); }

// The target's values at all steps of a row, scaled, as long as the workspace's current frame lives. Throws InvalidArgument
// that names one without a logarithm.
std::span<double> ScaledTarget(const SeriesForm& form, const SeriesInput& input, int64_t row, const ForecastScale& scale,
                               ModelWorkspace& workspace) {
  const RowTarget target(form, input, row);
  const std::span<double> scaled(workspace.Take<double>(LengthOf(input, row)), static_cast<std::size_t>(LengthOf(input, row)));
  double value = NAN;
  for (int64_t step = 0; step < std::ssize(scaled); ++step) {
    if (!std::isnan(target(step))) value = target(step);
    if (scale.logs && !(value > 0))
      throw InvalidArgument(std::string(input.target.present() ? "target" : "features") + ": row " + std::to_string(row) +
                            ", step " + std::to_string(step) + ": " + NumberText(value) +
                            " has no logarithm, and the method was fitted to logarithms");
    scaled[step] = scale.Scaled(value);
  }
  return scaled;
}

// Foretells every row before the first answer is put.
class PastMethod : public SeriesModel::Answerer {
 public:
  void Answer(const SeriesForm& form, const SeriesInput& input, const AnswerPlaces& places, ModelWorkspace& workspace,
              Executor&) const final {
    const int64_t rows = input.features.extent[0], outputs = form.outputs();
    const auto values = View<double, 2>::Contiguous(workspace.Take<double>(rows * outputs), {rows, outputs});
    Foretell(form, input, values, workspace);
    for (int64_t row = 0; row < rows; ++row) places.PutForecast(row, &values(row, 0));
  }

 private:
  // values: [rows, outputs], in the target's own units.
  virtual void Foretell(const SeriesForm& form, const SeriesInput& input, View<double, 2> values,
                        ModelWorkspace& workspace) const = 0;
};

std::span<double> ForecastOf(const View<double, 2>& values, int64_t row) {
  return {&values(row, 0), static_cast<std::size_t>(values.extent[1])};
}

class SeasonMethod final : public PastMethod {
 public:
  explicit SeasonMethod(RepeatedSeason method) : method_(method) {}
  int64_t LeastSteps() const override { return method_.season; }

 private:
  void Foretell(const SeriesForm& form, const SeriesInput& input, View<double, 2> values,
                ModelWorkspace& workspace) const override {
    for (int64_t row = 0; row < values.extent[0]; ++row) {
      const ModelWorkspace::Frame frame(workspace);
      method_.Foretell(ScaledTarget(form, input, row, {}, workspace), ForecastOf(values, row));
    }
  }

  RepeatedSeason method_;
};

class SmoothingMethod final : public PastMethod {
 public:
  explicit SmoothingMethod(Smoothing method) : method_(method) {}

 private:
  void Foretell(const SeriesForm& form, const SeriesInput& input, View<double, 2> values,
                ModelWorkspace& workspace) const override {
    int64_t longest = 0;
    for (int64_t row = 0; row < values.extent[0]; ++row) longest = std::max(longest, LengthOf(input, row));
    // A shorter row beside a long one is forecast without a season.
    if (values.extent[0] > 0 && method_.season > 1 && longest < 2 * method_.season)
      throw InvalidArgument("features: the longest row has " + Steps(longest) + "; Holt-Winters with a season of " +
                            std::to_string(method_.season) + " needs " + std::to_string(2 * method_.season));
    const ForecastScale scale{form.target_scale, method_.logs};
    for (int64_t row = 0; row < values.extent[0]; ++row) {
      const ModelWorkspace::Frame frame(workspace);
      const std::span<double> scaled = ScaledTarget(form, input, row, scale, workspace), foretold = ForecastOf(values, row);
      const auto part = [&] { return std::span(workspace.Take<double>(std::ssize(scaled)), scaled.size()); };
      const SmoothedParts parts{part(), part(), part()};
      const int64_t cycle = method_.SeasonOf(std::ssize(scaled));
      method_.Smooth(scaled, cycle, parts);
      method_.Foretell(parts, cycle, std::ssize(scaled) - 1, foretold);
      for (double& value : foretold) value = scale.Value(value);
    }
  }

  Smoothing method_;
};

class CalendarMethod final : public PastMethod {
 public:
  explicit CalendarMethod(Calendar method) : method_(std::move(method)) {}

 private:
  void Foretell(const SeriesForm& form, const SeriesInput& input, View<double, 2> values,
                ModelWorkspace& workspace) const override {
    const int64_t rows = values.extent[0], outputs = values.extent[1];
    const std::span<double> shares(workspace.Take<double>(outputs), static_cast<std::size_t>(outputs));
    auto* const beside = workspace.Take<double>(rows);  // what a row's last value lies beside its curve
    const ForecastScale scale{form.target_scale, method_.logs};
    SharesLeft left(shares, RequirePast(input), workspace);
    for (int64_t row = 0; row < rows; ++row) {
      const ModelWorkspace::Frame frame(workspace);
      const std::span<double> scaled = ScaledTarget(form, input, row, scale, workspace);
      const std::size_t all = scaled.size() + static_cast<std::size_t>(outputs);
      const std::span times(workspace.Take<double>(static_cast<int64_t>(all)), all);
      const std::span curve(workspace.Take<double>(static_cast<int64_t>(all)), all);
      for (std::size_t i = 0; i < scaled.size(); ++i) times[i] = input.times(row, static_cast<int64_t>(i));
      ContinueTimes(form, times.first(scaled.size()), times.subspan(scaled.size()));
      method_.FitCurve(times, scaled, curve, workspace);
      std::ranges::copy(curve.subspan(scaled.size()), ForecastOf(values, row).begin());
      for (std::size_t i = 0; i < scaled.size(); ++i) scaled[i] -= curve[i];
      beside[row] = scaled.back();
      left.Add(scaled);
    }
    left.Finish();
    for (int64_t row = 0; row < rows; ++row) {
      for (int64_t o = 0; o < outputs; ++o) values(row, o) = scale.Value(values(row, o) + shares[o] * beside[row]);
    }
  }

  // The steps of all rows. Throws InvalidArgument where none is long enough.
  int64_t RequirePast(const SeriesInput& input) const {
    int64_t steps = 0;
    double longest = 0;
    for (int64_t row = 0; row < input.features.extent[0]; ++row) {
      const int64_t length = LengthOf(input, row);
      steps += length, longest = std::max(longest, input.times(row, length - 1) - input.times(row, 0));
    }
    const std::string* const unseen = steps == 0 ? nullptr : PeriodUnseen(method_, longest);
    if (unseen == nullptr) return steps;
    throw InvalidArgument("times: the longest row spans " + std::to_string(longest) +
                          " seconds; its calendar needs 1.5 times a " + *unseen);
  }

  Calendar method_;
};

template <class Answerer, class Method>
std::unique_ptr<SeriesModel::Answerer> Read(const ConfigReader& config, const ConfigReader::Json& settings) {
  Method method;
  VisitFields(method, [&](const char* name, auto& field) { config.Read(settings, name, field); });
  Validate(method);
  return std::make_unique<Answerer>(std::move(method));
}

}  // namespace

std::unique_ptr<SeriesModel::Answerer> ReadPastMethod(const std::string& kind, const ConfigReader& config,
                                                      const ConfigReader::Json& settings, const SeriesForm& form) {
  if (kind != "season" && kind != "smoothing" && kind != "calendar") return nullptr;
  if (!form.Forecasts()) config.Fail("'" + kind + "' only forecasts");
  if (kind == "season") return Read<SeasonMethod, RepeatedSeason>(config, settings);
  if (kind == "smoothing") return Read<SmoothingMethod, Smoothing>(config, settings);
  if (!form.has_dates) config.Fail("'calendar' needs dates, and the data have none");
  return Read<CalendarMethod, Calendar>(config, settings);
}

}  // namespace heed
