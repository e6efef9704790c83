#include "heed/nn/cache.h"

#include <algorithm>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/library.h>
#include <torch/nn/module.h>

#include "heed/error.h"
#include "heed/nn/attention_position.h"
#include "refuse.h"
#include "tensor_view.h"
#include "translate_errors.h"

namespace heed::nn {
namespace {

// [batch, kv_heads, capacity, width], of which the first tokens are in use.
struct CacheMemory {
  at::Tensor keys, values;
};

// count: the tokens of key.
void CheckTokens(const std::string& name, const at::Tensor& tokens, const at::Tensor& own, const c10::SymInt& count) {
  CheckDense(name.c_str(), tokens, own.device().type());
  if (tokens.dim() != 4 || tokens.sym_size(0) != own.sym_size(0) || tokens.sym_size(1) != own.sym_size(1) ||
      tokens.sym_size(2) != count || tokens.sym_size(3) != own.sym_size(3)) {
    Refuse(c10::str(name, ": expected shape [", own.sym_size(0), ", ", own.sym_size(1), ", ",
                    count < 0 ? std::string("n") : c10::str(count), ", ", own.sym_size(3), "], got "),
           ShapeText(tokens));
  }
  if (tokens.scalar_type() != own.scalar_type()) {
    Refuse(name, ": expected ", own.scalar_type(), " as the cache has, got ", tokens.scalar_type());
  }
  // A cache cannot pass a gradient on, and training would lose it silently.
  if (tokens.requires_grad() && at::GradMode::is_enabled()) {
    Refuse(name,
           ": requires a gradient, and a cache passes none on; decode under torch.no_grad() or "
           "torch::NoGradGuard, or train without a cache");
  }
}

at::Tensor Grown(const at::Tensor& own, const c10::SymInt& length, const c10::SymInt& capacity) {
  at::Tensor grown = at::empty_symint({own.sym_size(0), own.sym_size(1), capacity, own.sym_size(3)}, own.options());
  grown.narrow_symint(2, 0, length).copy_(own.narrow_symint(2, 0, length));
  return grown;
}

// The memory with the tokens of key and value [batch, kv_heads, n, width] behind its first `length`: the same where they fit,
// or else, where it grows, one of at least twice the capacity. Throws InvalidArgument, before anything changes, where they do
// not fit or require a gradient that is recorded. Works on meta tensors.
CacheMemory Appended(CacheMemory memory, const at::Tensor& key, const at::Tensor& value, const c10::SymInt& length,
                     bool grows) {
  const c10::SymInt count = key.defined() && key.dim() == 4 ? key.sym_size(2) : c10::SymInt(-1);
  CheckTokens("KeyValueCache: key", key, memory.keys, count);
  CheckTokens("KeyValueCache: value", value, memory.values, count);
  const c10::SymInt end = length + count, capacity = memory.keys.sym_size(2);
  const at::NoGradGuard no_grad;
  if (end > capacity) {
    if (!grows) {
      Refuse("KeyValueCache: key: ", end, " tokens do not fit into a capacity of ", capacity);
    }
    const c10::SymInt larger = end.max(capacity * 2);
    memory = {Grown(memory.keys, length, larger), Grown(memory.values, length, larger)};
  }
  memory.keys.narrow_symint(2, length, count).copy_(key);
  memory.values.narrow_symint(2, length, count).copy_(value);
  return memory;
}

// The first tokens say what a cache holds.
CacheMemory MemoryFor(const at::Tensor& key, const at::Tensor& value, int64_t capacity) {
  for (const auto& [name, tokens] : {std::pair{"key", &key}, {"value", &value}}) {
    if (!tokens->defined() || tokens->dim() != 4) {
      Refuse("KeyValueCache: ", name, ": expected shape [batch, kv_heads, n, width], got ", ShapeText(*tokens));
    }
  }
  CheckDense("KeyValueCache: key", key);
  const auto room = [&](int64_t width) { return at::empty({key.size(0), key.size(1), capacity, width}, key.options()); };
  return {room(key.size(3)), room(value.size(3))};
}

void CheckRows(const at::Tensor& rows, int64_t batch) {
  if (!rows.defined() || rows.dim() != 1 || rows.scalar_type() != at::kLong) {
    Refuse("KeyValueCache: rows: expected int64 of shape [batch], got ",
           rows.defined() ? std::string(at::toString(rows.scalar_type())) + " " + ShapeText(rows) : "an undefined tensor");
  }
  CheckDense("KeyValueCache: rows", rows);
  if (rows.numel() > 0 && (rows.min().item<int64_t>() < 0 || rows.max().item<int64_t>() >= batch)) {
    Refuse("KeyValueCache: rows: expected batch rows below ", batch, ", got ", rows.min().item<int64_t>(), "..",
           rows.max().item<int64_t>());
  }
}

}  // namespace

// What a scheme computed of its parameters.
struct SchemeTables {
  // A tensor that they are made of, and what shows that it changed. `memory` holds on to its memory, which would otherwise be
  // that of other numbers one day.
  struct Source {
    at::Tensor tensor, memory;
    int64_t version;

    explicit Source(const at::Tensor& of) : tensor(of), memory(of.detach()), version(of._version()) {}
    bool operator==(const Source& other) const {
      return tensor.is_same(other.tensor) && version == other.version && memory.is_alias_of(other.memory) &&
             memory.scalar_type() == other.memory.scalar_type() && memory.storage_offset() == other.memory.storage_offset() &&
             memory.sizes() == other.memory.sizes() && memory.strides() == other.memory.strides();
    }
  };

  const AttentionPosition* scheme;
  std::vector<Source> sources;
  AttentionTensors tensors;
};

namespace {

// None where changes leave no mark.
std::vector<SchemeTables::Source> SourcesOf(const AttentionPosition& scheme) {
  const auto* module = dynamic_cast<const torch::nn::Module*>(&scheme);
  if (module == nullptr) return {};
  std::vector<at::Tensor> tensors = module->parameters();
  const std::vector<at::Tensor> buffers = module->buffers();
  tensors.insert(tensors.end(), buffers.begin(), buffers.end());
  std::vector<SchemeTables::Source> sources;
  sources.reserve(tensors.size());
  for (const at::Tensor& tensor : tensors) {
    if (tensor.is_inference()) return {};
    sources.emplace_back(tensor);
  }
  return sources;
}

}  // namespace

KeyValueCache::KeyValueCache(std::optional<int64_t> capacity) : capacity_(capacity) {
  if (capacity.value_or(0) < 0) {
    Refuse("KeyValueCache: capacity: expected 0 or more, got ", *capacity);
  }
}

void KeyValueCache::CheckScheme(const AttentionPosition* scheme) const {
  if (length_ == 0 || turned_by_.get() == scheme) return;
  throw InvalidArgument(turned_by_ ? "KeyValueCache: holds keys that another scheme turned"
                                   : "KeyValueCache: holds keys that are not turned");
}

at::Tensor KeyValueCache::PlacesWith(const at::Tensor& key, const at::Tensor& positions) const {
  const bool listed = places_.defined() && length_ > 0;
  if (!positions.defined()) {
    if (listed)
      throw InvalidArgument("KeyValueCache: positions: expected those of the new tokens, as earlier ones have theirs");
    return {};
  }
  const at::Tensor added = positions.dim() == 1 ? positions.unsqueeze(0) : positions;
  if (added.dim() < 2 || added.dim() > 3 || added.size(1) != key.size(2) ||
      (added.size(0) != 1 && added.size(0) != key.size(0))) {
    Refuse("KeyValueCache: positions: expected shape [", key.size(2), "] or [", key.size(0), ", ", key.size(2), "], got ",
           ShapeText(positions));
  }
  if (length_ == 0) return added.clone();
  const at::Tensor before = listed ? places_ : at::arange(length_, at::kLong).unsqueeze(0);
  const int64_t batch = std::max(before.size(0), added.size(0));
  const auto rows = [batch](const at::Tensor& list) {
    std::vector<int64_t> all = list.sizes().vec();
    all[0] = batch;
    return list.expand(all);
  };
  return at::cat({rows(before), rows(added)}, 1);
}

AttentionTensors KeyValueCache::TensorsOf(const AttentionPosition& scheme) const {
  if (!scheme.computes_tables() || at::GradMode::is_enabled()) return scheme.tensors();
  std::vector<SchemeTables::Source> sources = SourcesOf(scheme);
  if (sources.empty()) return scheme.tensors();
  if (!kept_ || kept_->scheme != &scheme || kept_->sources != sources)
    kept_ = std::make_shared<const SchemeTables>(SchemeTables{&scheme, std::move(sources), scheme.tensors()});
  return kept_->tensors;
}

void KeyValueCache::append(const at::Tensor& key, const at::Tensor& value) {
  CheckScheme(nullptr);
  Add(key, value);
  turned_by_ = nullptr;
  places_ = at::Tensor();
}

void KeyValueCache::append(const at::Tensor& key, const at::Tensor& value,
                           const std::shared_ptr<const AttentionPosition>& scheme, const at::Tensor& positions) {
  CheckScheme(scheme.get());
  if (!scheme) throw InvalidArgument("KeyValueCache: scheme: expected one, got null");
  const at::Tensor turned = scheme->rotate_key(key, positions.defined() ? TokenPositions(positions) : TokenPositions(length_));
  at::Tensor places = PlacesWith(key, positions);
  Add(turned, value);
  turned_by_ = scheme;
  places_ = std::move(places);
}

void KeyValueCache::Add(const at::Tensor& key, const at::Tensor& value) {
  if (length_ == 0) kept_ = nullptr;
  CacheMemory memory = keys_.defined() ? CacheMemory{keys_, values_} : MemoryFor(key, value, capacity_.value_or(0));
  memory = Appended(std::move(memory), key, value, length_, !capacity_);
  keys_ = std::move(memory.keys);
  values_ = std::move(memory.values);
  length_ += key.size(2);
}

void KeyValueCache::truncate(int64_t length) {
  if (length < 0 || length > length_) {
    Refuse("KeyValueCache: length: expected 0..", length_, ", got ", length);
  }
  length_ = length;
  if (places_.defined()) places_ = places_.narrow(1, 0, length);
}

void KeyValueCache::reorder(const at::Tensor& rows) {
  CheckRows(rows, keys_.defined() ? keys_.size(0) : 0);
  if (!keys_.defined()) return;
  const at::NoGradGuard no_grad;
  keys_ = keys_.index_select(0, rows);
  values_ = values_.index_select(0, rows);
  if (places_.defined() && places_.size(0) > 1) places_ = places_.index_select(0, rows);
}

at::Tensor KeyValueCache::keys() const { return keys_.defined() ? keys_.narrow(2, 0, length_) : keys_; }
at::Tensor KeyValueCache::values() const { return values_.defined() ? values_.narrow(2, 0, length_) : values_; }

int64_t LayerCaches::length() const { return layers_.empty() ? 0 : std::max(layers_.front().length(), states_.front().length); }

void LayerCaches::truncate(int64_t length) {
  for (const LinearState& state : states_) {
    if (state.length == 0 || length == 0 || length == state.length) continue;
    Refuse("LayerCaches: length: expected 0 or ", state.length, ", because states hold no earlier tokens, got ", length);
  }
  for (std::size_t layer = 0; layer < layers_.size(); ++layer) {
    if (states_[layer].length == 0) layers_[layer].truncate(length);
    if (length == 0) states_[layer] = {};
  }
}

void LayerCaches::reorder(const at::Tensor& rows) {
  for (std::size_t layer = 0; layer < layers_.size(); ++layer) {
    LinearState& own = states_[layer];
    if (!own.state.defined()) {
      layers_[layer].reorder(rows);
      continue;
    }
    CheckRows(rows, own.state.size(0));
    own.state = own.state.index_select(0, rows);
    if (own.inputs.defined()) own.inputs = own.inputs.index_select(0, rows);
  }
}

namespace {

std::tuple<at::Tensor, at::Tensor> CacheAppendOperator(
    const at::Tensor& keys, const at::Tensor& values, const at::Tensor& key, const at::Tensor& value,
    c10::SymInt length,  // NOLINT(performance-unnecessary-value-param): the dispatcher hands numbers over by value
    bool grows) {
  const CacheMemory memory = Appended({keys, values}, key, value, length, grows);
  return std::make_tuple(memory.keys, memory.values);
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(heed, m) {
  // Keys and values [batch, kv_heads, capacity, width] with tokens behind the first `length`: the same memory, or larger one.
  m.def(
      "cache_append(Tensor(a!) keys, Tensor(b!) values, Tensor key, Tensor value, SymInt length, bool grows) -> (Tensor(a!), "
      "Tensor(b!))");
}

// Made of PyTorch's operators, which a trace sees.
TORCH_LIBRARY_IMPL(heed, CompositeImplicitAutograd, m) { m.impl("cache_append", kKernel<&CacheAppendOperator>); }

}  // namespace heed::nn
