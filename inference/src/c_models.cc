// Models of `heed train` and `heed study` behind the C header.
#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "c_call.h"
#include "characters.h"
#include "heed/character_model.h"
#include "heed/counting_model.h"
#include "heed/heed.h"
#include "heed/series_model.h"
#include "heed/utf8.h"

struct heed_model {
  // One of them.
  std::unique_ptr<heed::CharacterModel> text;
  std::unique_ptr<heed::CountingModel> counts;
  std::unique_ptr<heed::SeriesModel> series;
  std::vector<std::string> characters;  // of a text, in UTF-8
};

namespace heed {
namespace {

// Null of a model of a text, and of none.
const SeriesForm* FormOf(const heed_model* model) {
  return model == nullptr || !model->series ? nullptr : &model->series->form();
}

void CheckText(const heed_model& model) {
  if (!model.text && !model.counts) throw InvalidArgument("model: it reads labelled sequences; call heed_model_predict");
}

std::vector<std::string> CharactersOf(const std::u32string& characters) {
  std::vector<std::string> names;
  names.reserve(characters.size());
  for (const char32_t character : characters) names.push_back(EncodeUtf8({&character, 1}));
  return names;
}

const char* NameAt(const std::vector<std::string>& names, int64_t index) {
  return index < 0 || index >= std::ssize(names) ? nullptr : names[index].c_str();
}

// Where the categories of a column of text begin; their number where there is no such column.
int64_t FirstCategory(const SeriesForm& form, int64_t column) {
  const std::vector<std::string>& columns = form.marks.category_columns;
  int64_t left = column - std::ssize(form.features), first = 0;
  for (; first < std::ssize(columns); ++first) {
    if ((first == 0 || columns[first] != columns[first - 1]) && left-- == 0) break;
  }
  return first;
}

}  // namespace
}  // namespace heed

extern "C" {

heed_status heed_model_open(const char* folder, heed_model** model) {
  return heed::Guarded([&] {
    heed::CheckGiven("folder", folder);
    heed::CheckGiven("model", model);
    auto opened = std::make_unique<heed_model>();
    if (heed::SeriesModel::IsIn(folder)) {
      opened->series = std::make_unique<heed::SeriesModel>(folder);
    } else if (heed::CountingModel::IsIn(folder)) {
      opened->counts = std::make_unique<heed::CountingModel>(folder);
      opened->characters = heed::CharactersOf(opened->counts->characters());
    } else {
      opened->text = std::make_unique<heed::CharacterModel>(folder);
      opened->characters = heed::CharactersOf(opened->text->config().characters);
    }
    *model = opened.release();
  });
}

void heed_model_close(heed_model* model) { delete model; }

heed_status heed_model_continue(const heed_model* model, const char* prompt, int64_t characters, char* text, size_t capacity) {
  return heed::Guarded([&] {
    heed::CheckGiven("model", model);
    heed::CheckGiven("prompt", prompt);
    heed::CheckGiven("text", text);
    heed::CheckText(*model);
    if (characters >= 0 && static_cast<std::size_t>(characters) >= capacity) {  // before a long computation for nothing
      throw heed::InvalidArgument("text: expected a capacity of more than " + std::to_string(characters) + " bytes, got " +
                                  std::to_string(capacity));
    }
    const std::string continuation = model->text ? model->text->Continue(prompt, characters, heed::CallThreads().executor())
                                                 : model->counts->Continue(prompt, characters);
    if (continuation.size() >= capacity) {
      throw heed::InvalidArgument("text: expected a capacity of at least " + std::to_string(continuation.size() + 1) +
                                  " bytes, got " + std::to_string(capacity));
    }
    std::memcpy(text, continuation.c_str(), continuation.size() + 1);
  });
}

heed_status heed_model_next(const heed_model* model, const char* prompt, double* probabilities, int64_t count) {
  return heed::Guarded([&] {
    heed::CheckGiven("model", model);
    heed::CheckGiven("prompt", prompt);
    heed::CheckGiven("probabilities", probabilities);
    heed::CheckText(*model);
    if (count != std::ssize(model->characters))
      throw heed::InvalidArgument("count: expected " + std::to_string(model->characters.size()) +
                                  ", the characters that the model knows, got " + std::to_string(count));
    const std::vector<int32_t> tokens =
        heed::EncodePrompt(model->text ? model->text->config().characters : model->counts->characters(), prompt, 0);
    const auto next = model->text ? model->text->Next(tokens, heed::CallThreads().executor()) : model->counts->Next(tokens);
    std::ranges::copy(next, probabilities);
  });
}

int64_t heed_model_columns(const heed_model* model) {
  const heed::SeriesForm* form = heed::FormOf(model);
  return form == nullptr ? 0 : form->columns();
}

const char* heed_model_column(const heed_model* model, int64_t column) {
  const heed::SeriesForm* form = heed::FormOf(model);
  if (form == nullptr || column < std::ssize(form->features))
    return form == nullptr ? nullptr : heed::NameAt(form->features, column);
  return heed::NameAt(form->marks.category_columns, heed::FirstCategory(*form, column));
}

const char* heed_model_category(const heed_model* model, int64_t column, int64_t category) {
  const heed::SeriesForm* form = heed::FormOf(model);
  if (form == nullptr || column < std::ssize(form->features) || category < 0) return nullptr;
  const std::vector<std::string>& columns = form->marks.category_columns;
  const int64_t first = heed::FirstCategory(*form, column), all = std::ssize(columns);
  if (first >= all || category >= all - first || columns[first + category] != columns[first]) return nullptr;
  return heed::NameAt(form->marks.category_names, first + category);
}

int64_t heed_model_outputs(const heed_model* model) {
  const heed::SeriesForm* form = heed::FormOf(model);
  return form != nullptr ? form->outputs() : model != nullptr ? std::ssize(model->characters) : 0;
}

const char* heed_model_class(const heed_model* model, int64_t output) {
  const heed::SeriesForm* form = heed::FormOf(model);
  if (form != nullptr) return heed::NameAt(form->classes, output);
  return model == nullptr ? nullptr : heed::NameAt(model->characters, output);
}

int64_t heed_model_answers(const heed_model* model, int64_t steps) {
  return heed::FormOf(model) == nullptr ? 0 : model->series->Answered(steps);
}

heed_status heed_model_predict(const heed_model* model, const double* features, int64_t rows, int64_t steps, int64_t columns,
                               const double* times, const int64_t* lengths, const double* target, double* out,
                               int64_t out_count, double* low, double* high) {
  return heed::Guarded([&] {
    heed::CheckGiven("model", model);
    heed::CheckGiven("features", features);
    heed::CheckGiven("out", out);
    if (!model->series) throw heed::InvalidArgument("model: it continues texts; call heed_model_continue");
    const std::array<int64_t, 3> extent{rows, heed_model_answers(model, steps), heed_model_outputs(model)};
    int64_t expected = 1, numbers = 1;
    // An extent of 0 counts as 1: the others give strides, which must not overflow either.
    for (const int64_t count : {rows, steps, columns}) {
      if (count < 0 || __builtin_mul_overflow(numbers, std::max<int64_t>(count, 1), &numbers))
        throw heed::InvalidArgument("rows, steps, columns: expected sizes of an array, got " + std::to_string(count));
    }
    for (const int64_t count : extent) {
      if (__builtin_mul_overflow(expected, std::max<int64_t>(count, 1), &expected))
        throw heed::InvalidArgument("rows, steps: the answers are too many to count");
    }
    if (std::ranges::find(extent, 0) != extent.end()) expected = 0;
    if (out_count != expected)
      throw heed::InvalidArgument("out_count: expected " + std::to_string(expected) + ", rows * answers * outputs, got " +
                                  std::to_string(out_count));
    heed::SeriesInput input;
    input.features = heed::View<const double, 3>::Contiguous(features, {rows, steps, columns});
    if (times != nullptr) input.times = heed::View<const double, 2>::Contiguous(times, {rows, steps});
    if (lengths != nullptr) input.lengths = heed::View<const int64_t, 1>::Contiguous(lengths, {rows});
    if (target != nullptr) input.target = heed::View<const double, 2>::Contiguous(target, {rows, steps});
    const auto answers = [&](double* place) {
      return place == nullptr ? heed::View<double, 3>() : heed::View<double, 3>::Contiguous(place, extent);
    };
    thread_local heed::ModelWorkspace workspace;
    model->series->Predict(input, {answers(out), answers(low), answers(high)}, workspace, heed::CallThreads().executor());
  });
}

}  // extern "C"
