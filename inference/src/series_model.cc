#include "heed/series_model.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "config_reader.h"
#include "heed/error.h"
#include "heed/shape_text.h"
#include "series/answerer.h"
#include "series/windows.h"

namespace heed {
namespace {

constexpr int64_t kFormatOfSeries = 1;

const char kKind[] = "table";

void RequireShape(const char* name, const View<double, 3>& view, const std::array<int64_t, 3>& expected) {
  if (view.extent != expected)
    throw InvalidArgument(std::string(name) + ": expected " + ShapeText(expected) + ", got " + ShapeText(view.extent));
  if (view.size() > 0 && !view.present()) throw InvalidArgument(std::string(name) + ": no memory behind it");
}

}  // namespace

SeriesModel::SeriesModel(const std::string& folder) {
  const std::string weights_path = folder + "/model.safetensors";
  const ConfigReader config(folder + "/config.json");
  config.Integer(config.file(), "format", kFormatOfSeries, kFormatOfSeries);
  if (!ConfigReader::Has(config.file(), "kind") && ConfigReader::Has(config.file(), "model"))
    config.Fail("it holds a model that continues texts; heed::CharacterModel opens it");
  if (config.Text(config.file(), "kind") != kKind) config.Fail("'kind' is not \"table\"");
  name_ = config.Text(config.file(), "name");
  const ConfigReader::Json& form = config.Object(config.file(), "form");
  VisitFields(form_, [&](const char* name, auto& field) {
    if (!MayLack(name) || ConfigReader::Has(form, name)) config.Read(form, name, field);
  });
  low_ = config.Numbers(config.file(), "low"), high_ = config.Numbers(config.file(), "high");
  try {
    Validate(form_);
    const auto intervals = static_cast<std::size_t>(form_.Classifies() ? 0 : form_.outputs());
    if (low_.size() != intervals || high_.size() != intervals)
      config.Fail("'low' and 'high': expected " + std::to_string(intervals) + " numbers each");
    const bool network = ConfigReader::Has(config.file(), "network");
    answerer_ = network ? ReadNetwork(config, weights_path, form_) : ReadMethod(config, weights_path, form_);
  } catch (const InvalidArgument& error) {
    config.Fail(error.what());
  }
}

SeriesModel::~SeriesModel() = default;
SeriesModel::SeriesModel(SeriesModel&&) noexcept = default;

bool SeriesModel::IsIn(const std::string& folder) {
  const ConfigReader config(folder + "/config.json");
  const auto found = config.file().find("kind");
  return found != config.file().end() && *found == kKind;
}

void SeriesModel::CheckShapes(const SeriesInput& input, const SeriesAnswers& answers) const {
  const auto& extent = input.features.extent;
  if (extent[0] < 0 || extent[1] < 1 || extent[2] != form_.columns())
    throw InvalidArgument("features: expected [rows, steps, " + std::to_string(form_.columns()) +
                          "] with at least one step, got " + ShapeText(extent));
  if (input.features.size() > 0 && !input.features.present()) throw InvalidArgument("features: no memory behind it");
  const std::array<int64_t, 2> places{extent[0], extent[1]};
  if (form_.has_times != input.times.present() || (form_.has_times && input.times.extent != places))
    throw InvalidArgument(form_.has_times ? "times: expected " + ShapeText(places) + ", got " + ShapeText(input.times.extent)
                                          : "times: expected none, as the model knows the order of steps alone");
  const std::array<int64_t, 1> rows{extent[0]};
  if (input.lengths.present() && input.lengths.extent != rows)
    throw InvalidArgument("lengths: expected " + ShapeText(rows) + ", got " + ShapeText(input.lengths.extent));
  if (input.target.present() && input.target.extent != places)
    throw InvalidArgument("target: expected " + ShapeText(places) + ", got " + ShapeText(input.target.extent));
  for (int64_t row = 0; row < extent[0]; ++row) {
    const int64_t length = LengthOf(input, row);
    if (length < 1 || length > extent[1])
      throw InvalidArgument("lengths: row " + std::to_string(row) + ": expected 1 to " + std::to_string(extent[1]) + ", got " +
                            std::to_string(length));
    if (length < answerer_->LeastSteps())
      throw InvalidArgument("features: row " + std::to_string(row) + " has " + std::to_string(length) + " steps; " + name_ +
                            " forecasts from " + std::to_string(answerer_->LeastSteps()));
  }
  const std::array<int64_t, 3> expected{extent[0], Answered(extent[1]), form_.outputs()};
  RequireShape("values", answers.values, expected);
  for (const auto& [name, view] : {std::pair("low", &answers.low), {"high", &answers.high}}) {
    if (!view->present()) continue;
    if (form_.Classifies()) throw InvalidArgument(std::string(name) + ": expected none, as classes have probabilities");
    RequireShape(name, *view, expected);
  }
}

void SeriesModel::Predict(const SeriesInput& input, const SeriesAnswers& answers, ModelWorkspace& workspace,
                          Executor& executor) const {
  CheckShapes(input, answers);
  CheckNumbers(form_, input);
  const ModelWorkspace::Frame frame(workspace);
  answerer_->Answer(form_, input, AnswerPlaces(form_, input, answers, low_, high_), workspace, executor);
}

void SeriesModel::Predict(const SeriesInput& input, const SeriesAnswers& answers) const {
  ModelWorkspace workspace;
  Predict(input, answers, workspace, ThreadPool::Default());
}

}  // namespace heed
