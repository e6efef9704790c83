// Matches tensors of a checkpoint with parameters of a module by names, shapes and types, before anything is read or written.
// It knows the names and layouts of d2l's layers in five frameworks, of the frameworks' own layers, and of models of Hugging
// Face and nanoGPT. It does not touch the tensors, so modules on plain memory and modules of LibTorch share its rules.
#ifndef HEED_WEIGHT_PLAN_H_
#define HEED_WEIGHT_PLAN_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace heed {

enum class Framework { kTorch, kFlax, kKeras, kPaddle, kMxnet, kHf, kNanoGpt };

// "torch", "flax", "keras", "paddle", "mxnet", "hf", "nanogpt"; throws InvalidArgument that lists them.
Framework ParseFramework(const std::string& name);
const char* NameOf(Framework framework);
// The entry "format" that the framework's own tools write into a safetensors file's metadata.
const char* FormatOf(Framework framework);

namespace weights {

// The layers whose names a written checkpoint has. Reading tells them by the names.
enum class Layers {
  kUsual,  // kD2l if the framework has it; kOwn for nanoGPT; for Hugging Face the first of kBert, kLlama, kT5, kVit, kGpt2 that
           // has a place for all of the module
  kD2l,    // d2l's layers in the framework
  kOwn,    // the framework's own layers (for MXNet GluonNLP's); where it has attention only, the rest is d2l's
  kNnx,    // flax.nnx's layers, by the names of its state; kOwn is flax.linen's
  kBert,   // of Hugging Face
  kVit,
  kGpt2,
  kLlama,
  kT5,
};

// The layout of a framework's tensor, compared with heed's parameter, whose Linear weights are [out, in].
enum class Layout {
  kSame,
  kTransposed,  // [in, out]
  kHeadsIn,     // [in, heads, head_dim] -> [heads * head_dim, in]
  kHeadsOut,    // [heads, head_dim, out] -> [out, heads * head_dim]
  kHeadsBias,   // [heads, head_dim] -> [heads * head_dim]
  kReversed,    // rows in the opposite order
  kFirstThird,  // rows of queries, keys and values stacked in one tensor
  kSecondThird,
  kLastThird,
  kFirstColumns,  // [in, 3 * out]: columns of queries, keys and values side by side
  kSecondColumns,
  kLastColumns,
};

}  // namespace weights
using weights::Layers;
using weights::Layout;

// "d2l", "own", "nnx", "bert", "vit", "gpt2", "llama", "t5"; throws InvalidArgument that lists them.
Layers ParseLayers(const std::string& name);

// One of three parameters stacked in one tensor: its place, 0 to 2, and the stacked dimension of the framework's tensor.
struct Third {
  int64_t place = 0, dimension = 0;
};
std::optional<Third> ThirdOf(Layout layout);

// The shape in heed's layout; absent if rank or extents do not allow it.
std::optional<std::vector<int64_t>> ShapeInHeed(const std::vector<int64_t>& theirs, Layout layout);

// The facts of a tensor that a plan needs.
struct WeightFacts {
  std::vector<int64_t> shape;
  std::string type;                // name in messages; equal types have equal names
  bool floating = true;            // a floating type of 64, 32 or 16 bits; these convert to each other
  std::optional<int64_t> place;    // equal for tensors that share the same memory
  std::optional<std::string> odd;  // in messages instead of the shape, for tensors without one: "(undefined)"
};

struct WeightTarget {
  std::string name;  // dotted
  const char* kind;  // in messages: "parameter", "buffer"
  WeightFacts facts;
  std::string fault;  // the reason why it cannot be filled, as a predicate; else empty
};

struct WeightSource {
  WeightFacts facts;
  std::string fault;      // the reason why it cannot be used, as a predicate; else empty
  bool optional = false;  // may stay unused
};

struct AttentionHeads {
  std::string path;  // of the attention layer, dotted; "" for the module itself
  int64_t heads = 0, kv_heads = 0;
};

struct WeightCopy {
  std::size_t target = 0;  // index into the targets; the caller checks that two sources of one target are equal
  std::string source;      // empty: zeros, for a bias that the checkpoint's layers do not have
  Layout layout = Layout::kSame;
};

struct WeightPlan {
  std::vector<WeightCopy> copies;
  std::vector<std::string> faults;  // empty if everything fits
};

// targets: parameters in the order of their making, then buffers. sources: by the framework's names. prefix: uses only the
// sources below it ("bert.encoder.layer.3"), by the rest of their names. A checkpoint may keep the module inside a further
// scope ("params/", "model.encoder."): the most frequent scope of names that fit, and names outside it do not fit. Throws
// InvalidArgument for a prefix that no source has.
WeightPlan PlanWeights(const std::vector<WeightTarget>& targets, const std::vector<AttentionHeads>& attention,
                       const std::map<std::string, WeightSource>& sources, Framework framework, const std::string& prefix = "");

// Throws InvalidArgument, listing the faults, if there are any.
void RefuseFaults(const std::vector<std::string>& faults, Framework framework);

// "parameter 'W_q.weight' [8, 8]"
std::string Described(const char* what, const std::string& name, const WeightFacts& facts);

// A module's tensors with a framework's names.
struct WeightExport {
  struct Part {
    std::size_t target = 0;  // index into the targets
    Layout layout = Layout::kSame;
    int64_t heads = 0;  // for layouts with heads
  };
  struct Tensor {
    std::string name;
    std::vector<Part> parts;  // more than one are stacked in this order
  };
  std::vector<Tensor> tensors;
  std::vector<std::size_t> left_out;  // targets without a place there, which must be zero
  std::string names_of;               // "d2l's layers for flax"
  std::vector<std::string> faults;    // empty if every target has a place
};

// prefix: comes before every name, instead of the framework's own scope. Throws InvalidArgument for layers that the framework
// does not have.
WeightExport PlanExport(const std::vector<WeightTarget>& targets, const std::vector<AttentionHeads>& attention,
                        Framework framework, Layers layers = Layers::kUsual, const std::string& prefix = "");

// Throws InvalidArgument, listing the plan's faults, if there are any.
void RefuseFaults(const WeightExport& plan);

}  // namespace heed

#endif  // HEED_WEIGHT_PLAN_H_
