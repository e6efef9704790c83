#include "weight_tables.h"

#include <algorithm>

#include "heed/error.h"
#include "weight_names.h"

namespace heed {
namespace {

using enum Layout;
constexpr bool kImportOnly = true;

constexpr std::string_view kDenseLayers[] = {"W_q", "W_k", "W_v", "W_o", "dense1", "dense2"};
constexpr std::string_view kHeedBlock = "blks.block";

// torch.nn.MultiheadAttention; d2l's layers have heed's names.
constexpr WeightRow kTorchRows[] = {
    {"W_q.weight", "in_proj_weight", kFirstThird, kImportOnly}, {"W_k.weight", "in_proj_weight", kSecondThird, kImportOnly},
    {"W_v.weight", "in_proj_weight", kLastThird, kImportOnly},  {"W_q.bias", "in_proj_bias", kFirstThird, kImportOnly},
    {"W_k.bias", "in_proj_bias", kSecondThird, kImportOnly},    {"W_v.bias", "in_proj_bias", kLastThird, kImportOnly},
    {"W_q.weight", "q_proj_weight", kSame, kImportOnly},        {"W_k.weight", "k_proj_weight", kSame, kImportOnly},
    {"W_v.weight", "v_proj_weight", kSame, kImportOnly},        {"W_o.weight", "out_proj.weight", kSame, kImportOnly},
    {"W_o.bias", "out_proj.bias", kSame, kImportOnly},
};

// d2l on flax.linen, then the spelling of flax.nnx, then flax.linen.MultiHeadDotProductAttention and
// flax.nnx.MultiHeadAttention.
constexpr WeightRow kFlaxRows[] = {
    {"*.weight", "*.kernel", kTransposed},
    {"*.bias", "*.bias"},
    {"ln.weight", "LayerNorm_0.scale"},
    {"ln.bias", "LayerNorm_0.bias"},
    {"embedding.weight", "embedding.embedding"},
    {"ln.weight", "ln.scale", kSame, kImportOnly},
    {"ln.bias", "ln.bias", kSame, kImportOnly},
    {"W_q.weight", "query.kernel", kHeadsIn, kImportOnly},
    {"W_q.bias", "query.bias", kHeadsBias, kImportOnly},
    {"W_k.weight", "key.kernel", kHeadsIn, kImportOnly},
    {"W_k.bias", "key.bias", kHeadsBias, kImportOnly},
    {"W_v.weight", "value.kernel", kHeadsIn, kImportOnly},
    {"W_v.bias", "value.bias", kHeadsBias, kImportOnly},
    {"W_o.weight", "out.kernel", kHeadsOut, kImportOnly},
    {"W_o.bias", "out.bias", kSame, kImportOnly},
};

// d2l on Keras by attribute names, then the groups of a .weights.h5 file, then keras.layers.MultiHeadAttention in both
// spellings.
constexpr WeightRow kKerasRows[] = {
    {"*.weight", "*.kernel", kTransposed},
    {"*.bias", "*.bias"},
    {"ln.weight", "ln.gamma"},
    {"ln.bias", "ln.beta"},
    {"embedding.weight", "embedding.embeddings"},
    {"*.weight", "*.vars.0", kTransposed, kImportOnly},
    {"*.bias", "*.vars.1", kSame, kImportOnly},
    {"ln.weight", "ln.vars.0", kSame, kImportOnly},
    {"ln.bias", "ln.vars.1", kSame, kImportOnly},
    {"embedding.weight", "embedding.vars.0", kSame, kImportOnly},
    {"W_q.weight", "query.kernel", kHeadsIn, kImportOnly},
    {"W_q.bias", "query.bias", kHeadsBias, kImportOnly},
    {"W_k.weight", "key.kernel", kHeadsIn, kImportOnly},
    {"W_k.bias", "key.bias", kHeadsBias, kImportOnly},
    {"W_v.weight", "value.kernel", kHeadsIn, kImportOnly},
    {"W_v.bias", "value.bias", kHeadsBias, kImportOnly},
    {"W_o.weight", "attention_output.kernel", kHeadsOut, kImportOnly},
    {"W_o.bias", "attention_output.bias", kSame, kImportOnly},
    {"W_q.weight", "query_dense.vars.0", kHeadsIn, kImportOnly},
    {"W_q.bias", "query_dense.vars.1", kHeadsBias, kImportOnly},
    {"W_k.weight", "key_dense.vars.0", kHeadsIn, kImportOnly},
    {"W_k.bias", "key_dense.vars.1", kHeadsBias, kImportOnly},
    {"W_v.weight", "value_dense.vars.0", kHeadsIn, kImportOnly},
    {"W_v.bias", "value_dense.vars.1", kHeadsBias, kImportOnly},
    {"W_o.weight", "output_dense.vars.0", kHeadsOut, kImportOnly},
    {"W_o.bias", "output_dense.vars.1", kSame, kImportOnly},
};

// d2l on Paddle, then paddle.nn.MultiHeadAttention.
constexpr WeightRow kPaddleRows[] = {
    {"*.weight", "*.weight", kTransposed},
    {"*.bias", "*.bias"},
    {"ln.weight", "ln.weight"},
    {"ln.bias", "ln.bias"},
    {"embedding.weight", "embedding.weight"},
    {"W_q.weight", "q_proj.weight", kTransposed, kImportOnly},
    {"W_q.bias", "q_proj.bias", kSame, kImportOnly},
    {"W_k.weight", "k_proj.weight", kTransposed, kImportOnly},
    {"W_k.bias", "k_proj.bias", kSame, kImportOnly},
    {"W_v.weight", "v_proj.weight", kTransposed, kImportOnly},
    {"W_v.bias", "v_proj.bias", kSame, kImportOnly},
    {"W_o.weight", "out_proj.weight", kTransposed, kImportOnly},
    {"W_o.bias", "out_proj.bias", kSame, kImportOnly},
};

// d2l on Gluon, as block.save_parameters names it.
constexpr WeightRow kMxnetRows[] = {
    {"*.weight", "*.weight"},
    {"*.bias", "*.bias"},
    {"ln.weight", "ln.gamma"},
    {"ln.bias", "ln.beta"},
    {"embedding.weight", "embedding.weight"},
};

// In the order of Framework.
constexpr FrameworkTable kTables[] = {
    {"torch", "pt", '.', "", kHeedBlock, true, kTorchRows}, {"flax", "flax", '/', "params", "blks_", false, kFlaxRows},
    {"keras", "tf", '/', "", "blks.", false, kKerasRows},   {"paddle", "pd", '.', "", "blks.", false, kPaddleRows},
    {"mxnet", "mx", '.', "", "blks.", false, kMxnetRows},
};

}  // namespace

const FrameworkTable& TableOf(Framework framework) { return kTables[static_cast<int>(framework)]; }

const char* NameOf(Framework framework) { return TableOf(framework).name; }
const char* FormatOf(Framework framework) { return TableOf(framework).format; }

Framework ParseFramework(const std::string& name) {
  std::string known;
  for (const FrameworkTable& table : kTables) {
    if (name == table.name) return static_cast<Framework>(&table - kTables);
    known += (known.empty() ? "" : ", ") + std::string(table.name);
  }
  throw InvalidArgument("framework '" + name + "': one of " + known + " is expected");
}

bool IsDenseLayer(std::string_view component) {
  return std::find(std::begin(kDenseLayers), std::end(kDenseLayers), component) != std::end(kDenseLayers);
}

std::optional<NativeWeight> NativeWeightOf(const std::string& name, bool in_tables, Framework framework) {
  const FrameworkTable& table = TableOf(framework);
  for (const WeightRow& row : table.rows) {
    if (row.import_only || !in_tables) continue;
    const std::optional<std::string> theirs = Rewrite(name, row.heed, row.theirs);
    if (theirs) return NativeWeight{NativeName(*theirs, table), row.layout};
  }
  if (!table.shares_heeds_names) return std::nullopt;
  return NativeWeight{NativeName(name, table), Layout::kSame};
}

std::optional<std::string> Rewrite(std::string_view name, std::string_view from, std::string_view to) {
  const bool any_dense = from.starts_with('*');
  if (any_dense) {
    from.remove_prefix(1);
    to.remove_prefix(1);
  }
  if (!name.ends_with(from)) return std::nullopt;
  const std::string_view kept = name.substr(0, name.size() - from.size());
  if (any_dense && !IsDenseLayer(kept.substr(kept.rfind('.') + 1))) return std::nullopt;
  if (!any_dense && !kept.empty() && !kept.ends_with('.')) return std::nullopt;
  return std::string(kept) + std::string(to);
}

}  // namespace heed
