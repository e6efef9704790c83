// How checkpoints name and lay out the parameters of heed's modules.
#ifndef HEED_WEIGHTS_SRC_WEIGHT_TABLES_H_
#define HEED_WEIGHTS_SRC_WEIGHT_TABLES_H_

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "heed/weight_plan.h"

namespace heed {

// What a layer is, by the last component of its path.
enum class LayerPart {
  kQuery,  // W_q, W_k, W_v, W_o: the projections of attention
  kKey,
  kValue,
  kOutput,
  kScheme,     // position: a positional scheme inside attention
  kDense,      // dense1, dense2, dense
  kNorm,       // ln, final_norm
  kEmbedding,  // embedding
  kPositions,  // learned: a table of positions
  kHead,       // head
};
std::optional<LayerPart> PartOf(std::string_view layer);
bool IsProjection(LayerPart part);

// How a parameter is called behind the path of its layer; those of projections and schemes behind the path of their attention
// layer. A projection without a row of its own is a dense layer.
struct WeightRow {
  LayerPart part;
  std::string_view parameter;  // empty: weight and bias of a projection, whose names end as those of the table's dense layers
  std::string_view theirs;     // without that end
  Layout layout = Layout::kSame;
  Layout bias_layout = Layout::kSame;
};

// How the end of a layer's path is called: '#' stands for a number. The first row that fits is taken, from the end of the path
// to its beginning; components that no row knows stay.
struct PathRow {
  std::string_view heed;
  std::string_view theirs;       // may be empty, or kNoCounterpart
  std::string_view beside = {};  // fits only where the module has a layer of this name beside the path
  std::string_view holds = {};   // or below it
};
inline constexpr std::string_view kNoCounterpart = "!";

// A second name of a parameter whose numbers are stored twice.
struct SecondName {
  std::string_view heed;
  std::string_view theirs;
  std::string_view beside;  // the module has a layer of this name,
  std::string_view unless;  // and none of that
};

// What the framework's attention can hold. Its output has one width with the rest of a model.
struct AttentionLimits {
  bool grouped_heads = true;
  bool other_inner_width = true;  // heads that are together wider or narrower than the output
  bool other_query_width = true;  // an input of queries that is
  bool other_key_width = true;
};
inline constexpr AttentionLimits kOneWidth{false, false, false, false};

enum class Biases {
  kFree,
  kAll,     // every projection has one
  kNone,    // none has
  kSwitch,  // the projections, feed-forward layers and norms of a block have one, or none of them
};

struct WeightTable {
  Layers layers;
  const char* names_of;    // in messages
  bool is_written = true;  // false: a second spelling, which is understood and never written
  std::span<const PathRow> paths = {};
  std::span<const WeightRow> attention = {};  // of projections and schemes
  std::span<const WeightRow> rest = {};
  bool keeps_others = false;  // parameters and buffers that no row knows keep their names
  AttentionLimits limits = {};
  Biases biases = Biases::kFree;
  char separator = '.';         // between the components of a name that is written
  std::string_view scope = {};  // first component of every name that is written
  std::span<const SecondName> second_names = {};
};

// Of a framework, those that are written first, in the order in which Layers::kUsual tries them.
std::span<const WeightTable> TablesOf(Framework framework);
std::span<const WeightTable> HuggingFaceTables();
std::span<const WeightTable> NanoGptTables();

// What numbers layers through the whole program, so that their order tells which they are.
enum class Numbering { kNone, kGluon, kKeras };

struct FrameworkFacts {
  const char* name;    // in messages and in ParseFramework
  const char* format;  // the entry "format" that the framework's own tools write into a file's metadata
  Numbering numbering = Numbering::kNone;
};
const FrameworkFacts& FactsOf(Framework framework);

// Whether a checkpoint's tensor is a constant that the framework computes by itself, such as a causal mask.
bool IsConstant(Framework framework, std::string_view dotted, std::size_t rank);

const char* NameOf(Layers layers);

}  // namespace heed

#endif  // HEED_WEIGHTS_SRC_WEIGHT_TABLES_H_
