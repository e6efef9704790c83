// Which source of a checkpoint fills which parameter of a module, decided from names, shapes and types before anything is read
// or written: the names and layouts of d2l's layers in five frameworks, and of each framework's own attention layer. It knows
// nothing of the tensors themselves, so that modules on plain memory and modules of LibTorch are filled by the same rules.
#ifndef HEED_WEIGHT_PLAN_H_
#define HEED_WEIGHT_PLAN_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace heed {

enum class Framework { kTorch, kFlax, kKeras, kPaddle, kMxnet };

// "torch", "flax", "keras", "paddle", "mxnet"; throws InvalidArgument that lists them.
Framework ParseFramework(const std::string& name);
const char* NameOf(Framework framework);
// The entry "format" that the framework's own tools write into a safetensors file's metadata.
const char* FormatOf(Framework framework);

// What a framework's tensor is to heed's parameter: Linear weights [out, in], everything else as it is.
enum class Layout {
  kSame,
  kTransposed,  // [in, out]
  kHeadsIn,     // [in, heads, head_dim] -> [heads * head_dim, in]
  kHeadsOut,    // [heads, head_dim, out] -> [out, heads * head_dim]
  kHeadsBias,   // [heads, head_dim] -> [heads * head_dim]
  kFirstThird,  // rows of queries, keys and values stacked in one tensor
  kSecondThird,
  kLastThird,
};

// The shape in heed's layout; nothing if rank or extents do not allow it.
std::optional<std::vector<int64_t>> ShapeInHeed(const std::vector<int64_t>& theirs, Layout layout);

// What a plan knows of a tensor.
struct WeightFacts {
  std::vector<int64_t> shape;
  std::string type;                // as messages name it; equal types have equal names
  bool floating = true;            // 64, 32 or 16 bits that every type of them converts to
  std::optional<int64_t> place;    // equal for tensors that are the same numbers in the same memory
  std::optional<std::string> odd;  // in messages instead of the shape, of tensors that have none: "(undefined)"
};

struct WeightTarget {
  std::string name;  // dotted
  const char* kind;  // in messages: "parameter", "buffer"
  WeightFacts facts;
  std::string fault;  // why it cannot be filled, as a predicate; empty when it can
};

struct WeightSource {
  WeightFacts facts;
  std::string fault;      // why it cannot be used, as a predicate; empty when it can
  bool optional = false;  // may be left over
};

struct AttentionHeads {
  std::string path;  // of the attention layer, dotted; "" for the module itself
  int64_t heads = 0, kv_heads = 0;
};

struct WeightCopy {
  std::size_t target = 0;  // index into the targets
  std::string source;
  Layout layout = Layout::kSame;
};

struct WeightPlan {
  std::vector<WeightCopy> copies;
  std::vector<std::string> faults;  // none where everything fits
};

// A checkpoint may keep the module inside a scope ("params/", "model.encoder."): the scope is what all its names share, and as
// much of it is left out as brings most names home. targets: parameters in the order of their making, then buffers. sources:
// by the framework's names.
WeightPlan PlanWeights(const std::vector<WeightTarget>& targets, const std::vector<AttentionHeads>& attention,
                       const std::map<std::string, WeightSource>& sources, Framework framework);

// Throws InvalidArgument that lists the faults, unless there are none.
void RefuseFaults(const std::vector<std::string>& faults, Framework framework);

// "parameter 'W_q.weight' [8, 8]"
std::string Described(const char* what, const std::string& name, const WeightFacts& facts);

// What a framework calls a weight of heed's, and how it lays it out: kSame or kTransposed.
struct NativeWeight {
  std::string name;
  Layout layout = Layout::kSame;
};
// Nothing for a weight that has no counterpart there. in_tables: false for buffers, which keep their names where the framework
// shares heed's.
std::optional<NativeWeight> NativeWeightOf(const std::string& name, bool in_tables, Framework framework);

}  // namespace heed

#endif  // HEED_WEIGHT_PLAN_H_
