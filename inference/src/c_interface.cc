// The C header over the engine and the models: types are unpacked, exceptions become a status and a message.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <exception>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <variant>
#include <vector>

#include "characters.h"
#include "heed/attention.h"
#include "heed/cache.h"
#include "heed/character_model.h"
#include "heed/counting_model.h"
#include "heed/error.h"
#include "heed/heed.h"
#include "heed/series_model.h"
#include "heed/thread_workspace.h"
#include "heed/utf8.h"

struct heed_cache {
  std::variant<heed::KeyValueCache<float>, heed::KeyValueCache<double>> tokens;
};

struct heed_model {
  // One of them.
  std::unique_ptr<heed::CharacterModel> text;
  std::unique_ptr<heed::CountingModel> counts;
  std::unique_ptr<heed::SeriesModel> series;
  std::vector<std::string> characters;  // of a text, in UTF-8
};

namespace heed {
namespace {

// The threads of all calls, see heed_set_threads. A call keeps those that it began with.
class CallThreads {
 public:
  CallThreads() {
    const std::lock_guard lock(Shared().mutex);
    pool_ = Shared().pool;
  }
  Executor& executor() const { return pool_ ? *pool_ : ThreadPool::Default(); }

  static void Set(int threads) {
    std::shared_ptr<ThreadPool> pool = threads == 0 ? nullptr : std::make_shared<ThreadPool>(threads);
    const std::lock_guard lock(Shared().mutex);
    Shared().pool.swap(pool);
  }

 private:
  struct State {
    std::mutex mutex;
    std::shared_ptr<ThreadPool> pool;  // null: the engine's own
  };
  static State& Shared() {
    static State& state = *new State;  // other threads may still compute when the process ends
    return state;
  }

  std::shared_ptr<ThreadPool> pool_;
};

std::string& Message() {
  thread_local std::string message;
  return message;
}

heed_status Failed(heed_status status, const char* what) noexcept {
  try {
    Message() = what;
  } catch (...) {
    Message().clear();
  }
  return status;
}

template <class Call>
heed_status Guarded(const Call& call) noexcept {
  try {
    call();
    return HEED_OK;
  } catch (const InvalidArgument& error) {
    return Failed(HEED_INVALID_ARGUMENT, error.what());
  } catch (const FileError& error) {
    return Failed(HEED_FILE_ERROR, error.what());
  } catch (const std::bad_alloc&) {
    return Failed(HEED_OUT_OF_MEMORY, "out of memory");
  } catch (const std::exception& error) {
    return Failed(HEED_FAILED, error.what());
  } catch (...) {
    return Failed(HEED_FAILED, "an error of unknown kind");
  }
}

template <class Pointer>
void CheckGiven(const char* name, Pointer pointer) {
  if (pointer == nullptr) throw InvalidArgument(std::string(name) + ": NULL was passed");
}

// Of a struct that begins with its size.
template <class Arrays>
void CheckBegun(const char* name, const Arrays* arrays, const std::string& type) {
  CheckGiven(name, arrays);
  if (arrays->struct_bytes != sizeof(Arrays))
    throw InvalidArgument(std::string(name) + ": struct_bytes is not sizeof(" + type + "); begin with " + type + "_default()");
}

template <class T, int Rank>
View<T, Rank> ViewOf(const heed_array& array) {
  View<T, Rank> view;
  view.data = static_cast<T*>(array.data);
  if (!view.present()) return {};
  std::copy_n(array.extent, Rank, view.extent.begin());
  std::copy_n(array.stride, Rank, view.stride.begin());
  return view;
}

// A table of rows. Nothing has checked the extents yet, and their product may overflow.
template <class T>
View<T, 2> RowsOf(T* data, const std::array<int64_t, 2>& extent) {
  return {data, extent, {extent[1], 1}};
}

// With the shapes that the pointers of the options have. q, Nk: of the call.
template <class T>
Attention Unpacked(const heed_attention* options, const heed_array& q, int64_t kv_len) {
  using Wide = Accum<T>;
  Attention attention;
  if (options == nullptr) return attention;
  CheckBegun("attention", options, "heed_attention");
  const int64_t batch = q.extent[0], heads = q.extent[1], q_len = q.extent[2];
  if (!std::isnan(options->scale)) attention.scale = options->scale;
  if (options->softcap != 0.0) attention.softcap = options->softcap;
  if (options->causal < HEED_CAUSAL_NONE || options->causal > HEED_CAUSAL_TOP_LEFT) {
    throw InvalidArgument("attention: causal: expected one of HEED_CAUSAL_*, got " + std::to_string(options->causal));
  }
  attention.causal = static_cast<Causal>(options->causal);
  attention.window = {options->window_left, options->window_right};
  if (options->query_lengths != nullptr) attention.query_lengths = Lengths::PerBatch(options->query_lengths, batch);
  if (options->key_lengths != nullptr) {
    attention.key_lengths = options->key_lengths_per_query != 0 ? Lengths::PerQuery(options->key_lengths, batch, q_len)
                                                                : Lengths::PerBatch(options->key_lengths, batch);
  }
  const auto listed = [](const int64_t* list, int64_t count) { return View<const int64_t, 2>{list, {1, count}, {count, 1}}; };
  if (options->query_positions != nullptr) attention.query_positions.list = listed(options->query_positions, q_len);
  if (options->key_positions != nullptr) attention.key_positions.list = listed(options->key_positions, kv_len);
  if (options->bias.data != nullptr) attention.bias = Bias{ViewOf<const Wide, 4>(options->bias)};
  if (options->relative_bias != nullptr) {
    if (options->max_distance < 0 || options->max_distance > int64_t{1} << 40) {
      throw InvalidArgument("attention: max_distance: expected 0 to 2^40, got " + std::to_string(options->max_distance));
    }
    attention.relative_bias =
        RelativeBias{RowsOf(static_cast<const Wide*>(options->relative_bias), {heads, 2 * options->max_distance + 1})};
  }
  if (options->slopes != nullptr) {
    attention.slope_bias = SlopeBias{View<const Wide, 1>::Contiguous(static_cast<const Wide*>(options->slopes), {heads}), true};
  }
  attention.dropout = {options->dropout, options->dropout_seed, 0};
  if (options->empty_row != HEED_EMPTY_ROW_ZERO && options->empty_row != HEED_EMPTY_ROW_UNIFORM) {
    throw InvalidArgument("attention: empty_row: expected one of HEED_EMPTY_ROW_*, got " + std::to_string(options->empty_row));
  }
  attention.empty_row = static_cast<EmptyRow>(options->empty_row);
  return attention;
}

// Calls with a number of the C++ type of `type`.
template <class Call>
void WithType(heed_type type, const Call& call) {
  switch (type) {
    case HEED_FLOAT32:
      return call(float{});
    case HEED_FLOAT64:
      return call(double{});
    case HEED_BFLOAT16:
      return call(BFloat16{});
    case HEED_FLOAT16:
      return call(Float16{});
  }
  throw InvalidArgument("type: expected HEED_FLOAT32, HEED_FLOAT64, HEED_BFLOAT16 or HEED_FLOAT16, got " +
                        std::to_string(type));
}

template <class T>
BiasGradients<Accum<T>> TableGradients(const Attention& attention, const heed_gradients& gradients) {
  using Wide = Accum<T>;
  BiasGradients<Wide> tables;
  tables.bias = ViewOf<Wide, 4>(gradients.bias);
  if (gradients.relative_bias != nullptr) {
    if (!attention.relative_bias) throw InvalidArgument("gradients: relative_bias: attention has no relative_bias");
    const auto& extent = std::get<View<const Wide, 2>>(attention.relative_bias->table).extent;
    tables.relative_bias = RowsOf(static_cast<Wide*>(gradients.relative_bias), extent);
  }
  if (gradients.slopes != nullptr) {
    if (!attention.slope_bias) throw InvalidArgument("gradients: slopes: attention has no slopes");
    const auto& extent = std::get<View<const Wide, 1>>(attention.slope_bias->slopes).extent;
    tables.slopes = View<Wide, 1>::Contiguous(static_cast<Wide*>(gradients.slopes), extent);
  }
  return tables;
}

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

const char* heed_message(void) { return heed::Message().c_str(); }

const char* heed_version(void) { return HEED_VERSION; }

heed_array heed_contiguous(const void* data, int64_t extent0, int64_t extent1, int64_t extent2, int64_t extent3) {
  const auto stride = [](int64_t step, int64_t extent) {
    int64_t product = 0;  // what overflows is refused where the array is used
    return __builtin_mul_overflow(step, extent, &product) ? INT64_MAX : product;
  };
  const int64_t stride1 = stride(extent3, extent2);
  return {const_cast<void*>(data), {extent0, extent1, extent2, extent3}, {stride(stride1, extent1), stride1, extent3, 1}};
}

heed_status heed_set_threads(int32_t threads) {
  return heed::Guarded([&] {
    if (threads < 0 || threads > 4096)
      throw heed::InvalidArgument("threads: expected 0 to 4096, got " + std::to_string(threads));
    heed::CallThreads::Set(threads);
  });
}

heed_attention heed_attention_default(void) {
  heed_attention attention{};
  attention.struct_bytes = sizeof(heed_attention);
  attention.scale = std::nan("");
  attention.window_left = attention.window_right = -1;
  return attention;
}

heed_status heed_forward(const heed_attention* attention, heed_type type, heed_array q, heed_array k, heed_array v,
                         heed_array out, heed_array lse) {
  heed_forward_arrays arrays = heed_forward_arrays_default();
  arrays.q = q, arrays.k = k, arrays.v = v, arrays.out = out, arrays.lse = lse;
  return heed_forward_by_name(attention, type, &arrays);
}

heed_forward_arrays heed_forward_arrays_default(void) {
  heed_forward_arrays arrays{};
  arrays.struct_bytes = sizeof(heed_forward_arrays);
  return arrays;
}

heed_status heed_forward_by_name(const heed_attention* attention, heed_type type, const heed_forward_arrays* arrays) {
  return heed::Guarded([&] {
    heed::CheckBegun("arrays", arrays, "heed_forward_arrays");
    heed::WithType(type, [&](auto zero) {
      using T = decltype(zero);
      using Wide = heed::Accum<T>;
      heed::Forward<T>(heed::Unpacked<T>(attention, arrays->q, arrays->k.extent[2]),
                       {.q = heed::ViewOf<const T, 4>(arrays->q),
                        .k = heed::ViewOf<const T, 4>(arrays->k),
                        .v = heed::ViewOf<const T, 4>(arrays->v)},
                       {.out = heed::ViewOf<T, 4>(arrays->out),
                        .lse = heed::ViewOf<Wide, 3>(arrays->lse),
                        .remainder = heed::ViewOf<heed::BFloat16, 4>(arrays->remainder),
                        .correction = heed::ViewOf<Wide, 3>(arrays->correction)},
                       heed::ThreadWorkspace(), heed::CallThreads().executor());
    });
  });
}

heed_status heed_backward(const heed_attention* attention, heed_type type, heed_array q, heed_array k, heed_array v,
                          heed_array out, heed_array lse, heed_array d_out, const heed_gradients* gradients) {
  heed_backward_arrays arrays = heed_backward_arrays_default();
  arrays.q = q, arrays.k = k, arrays.v = v, arrays.out = out, arrays.lse = lse, arrays.d_out = d_out;
  return heed_backward_by_name(attention, type, &arrays, gradients);
}

heed_backward_arrays heed_backward_arrays_default(void) {
  heed_backward_arrays arrays{};
  arrays.struct_bytes = sizeof(heed_backward_arrays);
  return arrays;
}

heed_status heed_backward_by_name(const heed_attention* attention, heed_type type, const heed_backward_arrays* arrays,
                                  const heed_gradients* gradients) {
  return heed::Guarded([&] {
    heed::CheckBegun("arrays", arrays, "heed_backward_arrays");
    heed::CheckGiven("gradients", gradients);
    heed::WithType(type, [&](auto zero) {
      using T = decltype(zero);
      using Wide = heed::Accum<T>;
      const heed::Attention options = heed::Unpacked<T>(attention, arrays->q, arrays->k.extent[2]);
      heed::Backward<T>(options,
                        {.q = heed::ViewOf<const T, 4>(arrays->q),
                         .k = heed::ViewOf<const T, 4>(arrays->k),
                         .v = heed::ViewOf<const T, 4>(arrays->v),
                         .out = heed::ViewOf<const T, 4>(arrays->out),
                         .lse = heed::ViewOf<const Wide, 3>(arrays->lse),
                         .d_out = heed::ViewOf<const T, 4>(arrays->d_out),
                         .d_lse = heed::ViewOf<const Wide, 3>(arrays->d_lse),
                         .remainder = heed::ViewOf<const heed::BFloat16, 4>(arrays->remainder),
                         .correction = heed::ViewOf<const Wide, 3>(arrays->correction)},
                        {.q = heed::ViewOf<T, 4>(gradients->q),
                         .k = heed::ViewOf<T, 4>(gradients->k),
                         .v = heed::ViewOf<T, 4>(gradients->v),
                         .biases = heed::TableGradients<T>(options, *gradients)},
                        heed::ThreadWorkspace(), heed::CallThreads().executor());
    });
  });
}

heed_status heed_cache_create(heed_type type, int64_t batch, int64_t kv_heads, int64_t head_dim, int64_t value_dim,
                              int64_t capacity, heed_cache** cache) {
  return heed::Guarded([&] {
    heed::CheckGiven("cache", cache);
    if (type == HEED_FLOAT32) {
      *cache = new heed_cache{heed::KeyValueCache<float>(batch, kv_heads, head_dim, value_dim, capacity)};
    } else if (type == HEED_FLOAT64) {
      *cache = new heed_cache{heed::KeyValueCache<double>(batch, kv_heads, head_dim, value_dim, capacity)};
    } else {
      throw heed::InvalidArgument("type: expected HEED_FLOAT32 or HEED_FLOAT64, got " + std::to_string(type));
    }
  });
}

void heed_cache_destroy(heed_cache* cache) { delete cache; }

int64_t heed_cache_length(const heed_cache* cache) {
  if (cache == nullptr) return 0;
  return std::visit([](const auto& tokens) { return tokens.length(); }, cache->tokens);
}

heed_status heed_cache_append(heed_cache* cache, heed_array k, heed_array v) {
  return heed::Guarded([&] {
    heed::CheckGiven("cache", cache);
    const auto append = [&]<class T>(heed::KeyValueCache<T>& tokens) {
      tokens.Append(heed::ViewOf<const T, 4>(k), heed::ViewOf<const T, 4>(v));
    };
    std::visit(append, cache->tokens);
  });
}

heed_status heed_cache_truncate(heed_cache* cache, int64_t length) {
  return heed::Guarded([&] {
    heed::CheckGiven("cache", cache);
    std::visit([&](auto& tokens) { tokens.Truncate(length); }, cache->tokens);
  });
}

heed_status heed_cache_attend(const heed_cache* cache, const heed_attention* attention, heed_array q, heed_array out,
                              heed_array lse) {
  return heed::Guarded([&] {
    heed::CheckGiven("cache", cache);
    const auto attend = [&]<class T>(const heed::KeyValueCache<T>& tokens) {
      tokens.Attend(heed::Unpacked<T>(attention, q, tokens.length()), heed::ViewOf<const T, 4>(q), heed::ViewOf<T, 4>(out),
                    heed::ViewOf<heed::Accum<T>, 3>(lse), heed::ThreadWorkspace(), heed::CallThreads().executor());
    };
    std::visit(attend, cache->tokens);
  });
}

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
