// Which tensor of a checkpoint is which parameter of a module, decided from names, shapes and types before anything is read or
// written: the names and layouts of d2l's layers in five frameworks, of the layers that come with them, and of models of
// Hugging Face and nanoGPT. It knows nothing of the tensors themselves, so that modules on plain memory and modules of LibTorch
// are filled by the same rules.
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

// Whose names a checkpoint is written with; one that is read tells by its names.
enum class Layers {
  kUsual,  // kD2l where the framework has it; kOwn for nanoGPT; for Hugging Face the first of kBert, kLlama, kT5, kVit, kGpt2
           // that has a place for all of the module
  kD2l,    // d2l's layers in the framework
  kOwn,    // the layers that come with the framework (for MXNet with GluonNLP); where it has attention alone, the rest is d2l's
  kNnx,    // those of flax.nnx, as its state names them; kOwn is flax.linen's
  kBert,   // of Hugging Face
  kVit,
  kGpt2,
  kLlama,
  kT5,
};

// "d2l", "own", "nnx", "bert", "vit", "gpt2", "llama", "t5"; throws InvalidArgument that lists them.
Layers ParseLayers(const std::string& name);

// What a framework's tensor is to heed's parameter: Linear weights [out, in], everything else as it is.
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

// What is stacked in one tensor with others: its place there, 0 to 2, and the dimension of the framework's tensor.
struct Third {
  int64_t place = 0, dimension = 0;
};
std::optional<Third> ThirdOf(Layout layout);

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
  std::size_t target = 0;  // index into the targets; one that stands here twice has two sources, which must be equal
  std::string source;      // empty: zeros, of a bias that the checkpoint's layers do without
  Layout layout = Layout::kSame;
};

struct WeightPlan {
  std::vector<WeightCopy> copies;
  std::vector<std::string> faults;  // none where everything fits
};

// targets: parameters in the order of their making, then buffers. sources: by the framework's names. prefix: of the sources
// those below it ("bert.encoder.layer.3") are all there is, by the rest of their names. A checkpoint may keep the module inside
// a further scope ("params/", "model.encoder."): it is what most of the names that lead somewhere begin with, and names without
// it lead nowhere. Throws InvalidArgument for a prefix that no source has.
WeightPlan PlanWeights(const std::vector<WeightTarget>& targets, const std::vector<AttentionHeads>& attention,
                       const std::map<std::string, WeightSource>& sources, Framework framework, const std::string& prefix = "");

// Throws InvalidArgument that lists the faults, unless there are none.
void RefuseFaults(const std::vector<std::string>& faults, Framework framework);

// "parameter 'W_q.weight' [8, 8]"
std::string Described(const char* what, const std::string& name, const WeightFacts& facts);

// A module's tensors as a framework names them.
struct WeightExport {
  struct Part {
    std::size_t target = 0;  // index into the targets
    Layout layout = Layout::kSame;
    int64_t heads = 0;  // of a layout that has them
  };
  struct Tensor {
    std::string name;
    std::vector<Part> parts;  // more than one are stacked in this order
  };
  std::vector<Tensor> tensors;
  std::vector<std::size_t> left_out;  // targets that have no place there and no effect while they are zero
  std::string names_of;               // "d2l's layers for flax"
  std::vector<std::string> faults;    // none where every target has its place
};

// prefix: stands before every name, instead of the framework's own scope. Throws InvalidArgument for layers that the framework
// does not have.
WeightExport PlanExport(const std::vector<WeightTarget>& targets, const std::vector<AttentionHeads>& attention,
                        Framework framework, Layers layers = Layers::kUsual, const std::string& prefix = "");

// Throws InvalidArgument that lists the plan's faults, unless there are none.
void RefuseFaults(const WeightExport& plan);

}  // namespace heed

#endif  // HEED_WEIGHT_PLAN_H_
