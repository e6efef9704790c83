#include "options.h"

#include <numeric>
#include <string>

#include "heed/error.h"
#include "heed/option_names.h"

namespace heed::jax {
namespace {

// The choice that a setting of this name makes, the first where there is none.
template <class Choice>
Choice ChoiceIn(const Settings& settings, const char* name) {
  return ChoiceNamed<Choice>(name, settings.Text(name, kChoices<Choice>.front().name));
}

// Two words, the upper first: JAX has no 64 bits unless told.
uint64_t SeedOf(const CallSlice& slice) {
  const Array* array = slice.Find("seed");
  if (array == nullptr) throw InvalidArgument("seed: expected one because dropout is not 0");
  const std::vector<int64_t> words = slice.Integers(*array);
  if (words.size() != 2) throw Error("seed: expected two words");
  return static_cast<uint64_t>(words[0]) << 32 | static_cast<uint64_t>(words[1]);
}

View<const int64_t, 1> ViewOfAll(const std::vector<int64_t>& numbers) {
  static constexpr int64_t kNowhere = 0;
  return View<const int64_t, 1>::Contiguous(numbers.empty() ? &kNowhere : numbers.data(), {std::ssize(numbers)});
}

}  // namespace

template <class A>
Options<A>::Options(const CallSlice& slice) {
  ReadSettings(slice.settings());
  if (attention_.dropout.probability != 0.0) attention_.dropout.seed = SeedOf(slice);
  if (const Array* row = slice.Find("batch_offset")) attention_.dropout.batch_offset = slice.Integers(*row).at(0);
  ReadPlaces(slice);
  ReadTables(slice);
}

template <class A>
void Options<A>::ReadSettings(const Settings& settings) {
  attention_.scale = settings.Number("scale");
  attention_.causal = ChoiceIn<Causal>(settings, "causal");
  attention_.window = {settings.Integer("window_left").value_or(-1), settings.Integer("window_right").value_or(-1)};
  attention_.softcap = settings.Number("softcap");
  attention_.dropout.probability = settings.Number("dropout").value_or(0.0);
  attention_.dropout.batch_offset = settings.Integer("batch_offset").value_or(0);
  attention_.empty_row = ChoiceIn<EmptyRow>(settings, "empty_row");
  attention_.precision = ChoiceIn<Precision>(settings, "precision");
}

template <class A>
void Options<A>::ReadPlaces(const CallSlice& slice) {
  attention_.query_lengths.values = Rows(slice, "query_lengths");
  attention_.key_lengths.values = Rows(slice, "key_lengths");
  attention_.prefix_lengths.values = Rows(slice, "prefix_lengths");
  attention_.query_positions = PositionsOf(slice, "query_positions", "query_offset");
  attention_.key_positions = PositionsOf(slice, "key_positions", "key_offset");
  if (slice.Find("query_offsets") == nullptr) return;
  attention_.packed.query_offsets = Offsets(slice, "query_offsets", "query");
  attention_.packed.key_offsets = Offsets(slice, "key_offsets", "key");
}

template <class A>
void Options<A>::ReadTables(const CallSlice& slice) {
  if (slice.Find("mask")) attention_.mask = Mask{slice.Input<bool, 4>("mask")};
  if (slice.Find("bias")) attention_.bias = Bias{slice.Input<A, 4>("bias")};
  if (slice.Find("relative_bias")) attention_.relative_bias = RelativeBias{slice.Input<A, 2>("relative_bias")};
  if (slice.Find("slopes"))
    attention_.slope_bias = SlopeBias{slice.Input<A, 1>("slopes"), !slice.settings().Flag("asymmetric")};
  ContentBias content;
  if (slice.Find("content_keys")) content.keys = slice.Input<A, 2>("content_keys");
  if (slice.Find("content_values")) content.values = slice.Input<A, 2>("content_values");
  if (slice.Find("content_queries")) content.queries = slice.Input<A, 2>("content_queries");
  if (content.keys || content.values || content.queries) attention_.content_bias = content;
  if (slice.Find("sinks")) attention_.sinks = Sinks{slice.Input<A, 3>("sinks")};
  if (slice.Find("contextual_position"))
    attention_.contextual_position = ContextualPosition{slice.Input<A, 2>("contextual_position")};
  if (!slice.Find("transformer_xl_positions")) return;
  attention_.transformer_xl.emplace().positions = slice.Input<A, 3>("transformer_xl_positions");
  if (slice.Find("transformer_xl_bias")) attention_.transformer_xl->bias = slice.Input<A, 2>("transformer_xl_bias");
}

template <class A>
View<const int64_t, 2> Options<A>::Rows(const CallSlice& slice, std::string_view name) {
  const Array* array = slice.Find(name);
  if (array == nullptr) return {};
  if (array->extent.size() != 2) throw Error(std::string(name) + ": expected two dimensions, got " + array->ShapeText());
  const std::vector<int64_t>& numbers = integers_.emplace_back(slice.Integers(*array));
  return View<const int64_t, 2>::Contiguous(ViewOfAll(numbers).data, {array->extent[0] * array->repeats, array->extent[1]});
}

// Cumulative lengths of the operand's tokens. Where they are only described, the first sequence holds all.
template <class A>
View<const int64_t, 1> Options<A>::Offsets(const CallSlice& slice, std::string_view name, std::string_view operand) {
  const Array& array = slice.Get(name);
  std::vector<int64_t>& numbers = integers_.emplace_back(slice.Integers(array));
  if (array.data == nullptr && numbers.size() > 1)
    std::fill(numbers.begin() + 1, numbers.end(), slice.Get(operand).extent.at(0));
  return ViewOfAll(numbers);
}

template <class A>
Positions Options<A>::PositionsOf(const CallSlice& slice, std::string_view list, std::string_view offset) {
  Positions positions;
  positions.offset = slice.settings().Integer(offset);
  if (const Array* number = slice.Find(offset)) positions.offset = slice.Integers(*number).at(0);
  const Array* listed = slice.Find(list);
  if (listed == nullptr) return positions;
  if (listed->type == DataType::F64) {
    positions.list = slice.Input<double, 2>(list);
  } else {
    positions.list = Rows(slice, list);
  }
  return positions;
}

template class Options<float>;
template class Options<double>;

Indices::Indices(const CallSlice& slice, std::string_view name, int64_t count) {
  if (const Array* array = slice.Find(name)) {
    values_ = slice.Integers(*array);
  } else {
    values_.resize(static_cast<std::size_t>(count));
    std::iota(values_.begin(), values_.end(), 0);
  }
}

View<const int64_t, 1> Indices::view() const { return ViewOfAll(values_); }

}  // namespace heed::jax
