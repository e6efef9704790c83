#include "heed/series_model.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "config_reader.h"
#include "heed/error.h"
#include "heed/series_windows.h"
#include "heed/shape_text.h"
#include "series/answerer.h"

namespace heed {
namespace {

constexpr int64_t kFormatOfSeries = 1;

const char kKind[] = "table";

// Throws InvalidArgument too.
SeriesForm FormOf(const ConfigReader& config) {
  const ConfigReader::Json& json = config.Object(config.file(), "form");
  SeriesForm form;
  VisitFields(form, [&](const char* name, auto& field) {
    if (!MayLack(name) || ConfigReader::Has(json, name)) config.Read(json, name, field);
  });
  Validate(form);
  return form;
}

void RequireShape(const char* name, const View<double, 3>& view, const std::array<int64_t, 3>& expected) {
  if (view.extent != expected)
    throw InvalidArgument(std::string(name) + ": expected " + ShapeText(expected) + ", got " + ShapeText(view.extent));
  if (view.size() > 0 && !view.present()) throw InvalidArgument(std::string(name) + ": no memory behind it");
}

}  // namespace

// read(form): the answerer.
template <class Read>
void SeriesModel::Open(const ConfigReader& config, const Read& read) {
  config.Integer(config.file(), "format", kFormatOfSeries, kFormatOfSeries);
  if (!ConfigReader::Has(config.file(), "kind") && ConfigReader::Has(config.file(), "model"))
    config.Fail("it holds a model that continues texts; heed::CharacterModel opens it");
  if (config.Text(config.file(), "kind") != kKind) config.Fail("'kind' is not \"table\"");
  name_ = config.Text(config.file(), "name");
  low_ = config.Numbers(config.file(), "low"), high_ = config.Numbers(config.file(), "high");
  try {
    form_ = FormOf(config);
    const auto intervals = static_cast<std::size_t>(form_.Classifies() ? 0 : form_.outputs());
    if (low_.size() != intervals || high_.size() != intervals)
      config.Fail("'low' and 'high': expected " + std::to_string(intervals) + " numbers each");
    answerer_ = read(form_);
  } catch (const InvalidArgument& error) {
    config.Fail(error.what());
  }
}

SeriesModel::SeriesModel(const std::string& folder) {
  const ConfigReader config(folder + "/config.json");
  Open(config, [&](const SeriesForm& form) {
    const std::string weights_path = folder + "/model.safetensors";
    return ConfigReader::Has(config.file(), "network") ? ReadNetwork(config, weights_path, form)
                                                       : ReadMethod(config, KeptArrays(weights_path), form);
  });
}

SeriesModel::SeriesModel(const std::string& text, std::map<std::string, KeptArray> arrays) {
  const ConfigReader config("config.json", text);
  Open(config, [&](const SeriesForm& form) { return ReadMethod(config, KeptArrays(std::move(arrays)), form); });
}

SeriesForm ReadForm(const std::string& text) {
  const ConfigReader config("config.json", text);
  try {
    return FormOf(config);
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
  for (int64_t row = 0; row < extent[0]; ++row) {
    if (const int64_t length = LengthOf(input, row); length < answerer_->LeastSteps())
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
  CheckInput(form_, input);
  CheckShapes(input, answers);
  const ModelWorkspace::Frame frame(workspace);
  answerer_->Answer(form_, input, AnswerPlaces(form_, input, answers, low_, high_), workspace, executor);
}

void SeriesModel::Predict(const SeriesInput& input, const SeriesAnswers& answers) const {
  ModelWorkspace workspace;
  Predict(input, answers, workspace, ThreadPool::Default());
}

}  // namespace heed
