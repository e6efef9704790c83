// torch.ops.heed.check_model and its kin: what Python asks of models that the laboratory kept. config: the text of config.json.
// features, lengths, times and target are those of heed/series_model.h, dense.
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <torch/library.h>

#include "heed/character_model.h"
#include "heed/counting_model.h"
#include "heed/error.h"
#include "heed/series_model.h"
#include "heed/series_windows.h"
#include "refuse.h"
#include "tensor_view.h"
#include "translate_errors.h"

namespace heed::nn {
namespace {

using OptionalTensor = std::optional<at::Tensor>;

SeriesInput InputOf(const at::Tensor& features, const at::Tensor& lengths, const OptionalTensor& times,
                    const OptionalTensor& target) {
  SeriesInput input;
  input.features = ViewOf<const double, 3>(features), input.lengths = ViewOf<const int64_t, 1>(lengths);
  input.times = ViewOf<const double, 2>(times.value_or(at::Tensor()));
  input.target = ViewOf<const double, 2>(target.value_or(at::Tensor()));
  return input;
}

// NOLINTBEGIN(performance-unnecessary-value-param): the dispatcher hands lists over by value
std::string CheckModel(std::string folder) {
  if (SeriesModel::IsIn(folder)) {
    const SeriesModel checked(folder);
    return "table";
  }
  if (CountingModel::IsIn(folder)) return "counts";
  const CharacterModel checked(folder, /*masked_too=*/true);
  return "text";
}

at::Tensor SeriesWindows(std::string config, const at::Tensor& features, const at::Tensor& lengths, const OptionalTensor& times,
                         const OptionalTensor& target) {
  const SeriesForm form = ReadForm(config);
  const SeriesInput input = InputOf(features, lengths, times, target);
  CheckInput(form, input);
  std::vector<int64_t> numbers;
  for (int64_t row = 0; row < input.features.extent[0]; ++row) {
    const int64_t length = LengthOf(input, row);
    for (int64_t w = 0; w < WindowCount(form, length); ++w) {
      const SeriesWindow window = WindowAt(form, row, length, w);
      numbers.insert(numbers.end(), {window.row, window.first, window.steps, window.read});
    }
  }
  return at::tensor(numbers, at::kLong).reshape({-1, 4});
}

std::tuple<at::Tensor, at::Tensor, OptionalTensor> SeriesBatchOf(std::string config, const at::Tensor& windows,
                                                                 const at::Tensor& features, const at::Tensor& lengths,
                                                                 const OptionalTensor& times) {
  const SeriesForm form = ReadForm(config);
  const SeriesInput input = InputOf(features, lengths, times, {});
  CheckShapes(form, input);
  const View<const int64_t, 2> given = ViewOf<const int64_t, 2>(windows);
  if (given.extent[0] < 1 || given.extent[1] != 4) Refuse("windows: expected those of series_windows");
  std::vector<SeriesWindow> listed;
  for (int64_t w = 0; w < given.extent[0]; ++w) {
    const SeriesWindow window{given(w, 0), given(w, 1), given(w, 2), given(w, 3)};
    const bool known = window.row >= 0 && window.row < input.features.extent[0] && window.first >= 0 && window.steps > 0 &&
                       window.steps <= form.steps();
    if (!known || window.first > LengthOf(input, window.row) - window.steps)
      Refuse("windows: expected those of series_windows");
    listed.push_back(window);
  }
  ModelWorkspace workspace;
  const ModelWorkspace::Frame frame(workspace);
  const SeriesBatch batch = MakeBatch(form, input, listed.data(), std::ssize(listed), workspace);
  const at::Tensor made = at::from_blob(batch.features.data, {batch.rows, batch.steps, form.width()}, at::kFloat).clone();
  OptionalTensor moments;
  if (form.has_times)
    moments = at::from_blob(const_cast<double*>(batch.times.data), {batch.rows, batch.steps}, at::kDouble).clone();
  return std::make_tuple(made, windows.select(1, 2).clone(), moments);
}

at::Tensor SeriesAnswersOf(std::string config, std::vector<std::string> names, std::vector<at::Tensor> arrays,
                           const at::Tensor& features, const at::Tensor& lengths, const OptionalTensor& times,
                           const OptionalTensor& target) {
  if (names.size() != arrays.size()) Refuse("arrays: expected as many as names");
  std::map<std::string, KeptArray> kept;
  for (std::size_t i = 0; i < names.size(); ++i) {
    at::Tensor& array = arrays[i];
    const bool real = array.scalar_type() == at::kDouble;
    if (!real && array.scalar_type() != at::kLong)
      Refuse("arrays: ", names[i], ": expected float64 or int64, got ", array.scalar_type());
    array = array.to(at::kCPU).contiguous();
    const auto* const bytes = real ? reinterpret_cast<const char*>(AddressOf<const double>(array))
                                   : reinterpret_cast<const char*>(AddressOf<const int64_t>(array));
    kept[names[i]] = {real ? ElementType::kFloat64 : ElementType::kInt64, array.sizes().vec(), {bytes, array.nbytes()}};
  }
  const SeriesModel model(config, std::move(kept));
  const SeriesInput input = InputOf(features, lengths, times, target);
  at::Tensor answers = at::empty({features.size(0), model.Answered(features.size(1)), model.form().outputs()}, at::kDouble);
  model.Predict(input, {ViewOf<double, 3>(answers)});
  return answers;
}
// NOLINTEND(performance-unnecessary-value-param)

}  // namespace

TORCH_LIBRARY_FRAGMENT(heed, m) {
  // Refuses a folder that is damaged, but for the numbers of counts; the kind of the model: table, counts or text.
  m.def("check_model(str folder) -> str", kKernel<&CheckModel>);
  // Checks sequences; the windows that a network reads them in, [windows, 4]: row, first step, steps, and how many of these an
  // earlier window answers.
  m.def("series_windows(str config, Tensor features, Tensor lengths, Tensor? times, Tensor? target) -> Tensor",
        kKernel<&SeriesWindows>);
  // Some of these windows as a network takes them: features, lengths, times.
  m.def("series_batch(str config, Tensor windows, Tensor features, Tensor lengths, Tensor? times) -> (Tensor, Tensor, Tensor?)",
        kKernel<&SeriesBatchOf>);
  // What a method answers, [rows, 1 or steps, outputs].
  m.def(
      "series_answers(str config, str[] names, Tensor[] arrays, Tensor features, Tensor lengths, Tensor? times, "
      "Tensor? target) -> Tensor",
      kKernel<&SeriesAnswersOf>);
}

}  // namespace heed::nn
