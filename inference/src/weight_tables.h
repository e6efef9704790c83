// How each framework names and lays out the parameters of d2l's layers, and those of its own attention layer.
#ifndef HEED_INFERENCE_SRC_WEIGHT_TABLES_H_
#define HEED_INFERENCE_SRC_WEIGHT_TABLES_H_

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "heed/weight_plan.h"

namespace heed {

// A row fits a dotted name that ends with its pattern at a dot. A leading '*' stands for any of d2l's dense layers.
struct WeightRow {
  std::string_view heed;
  std::string_view theirs;
  Layout layout = Layout::kSame;
  bool import_only = false;  // a second spelling, or a layer that is not d2l's
};

struct FrameworkTable {
  const char* name;         // in messages and in ParseFramework
  const char* format;       // the entry "format" that the framework's own tools write into a file's metadata
  char separator;           // between the components of a name
  std::string_view scope;   // first component of every name; may be empty
  std::string_view block;   // before a block's number, dotted; heed's own is "blks.block"
  bool shares_heeds_names;  // parameters that no row knows keep their names
  std::span<const WeightRow> rows;
};

const FrameworkTable& TableOf(Framework framework);

// The name with the pattern `from` at its end replaced by `to`; nothing if it does not end so.
std::optional<std::string> Rewrite(std::string_view name, std::string_view from, std::string_view to);

// Whether `component` names one of d2l's dense layers: W_q, W_k, W_v, W_o, dense1, dense2.
bool IsDenseLayer(std::string_view component);

}  // namespace heed

#endif  // HEED_INFERENCE_SRC_WEIGHT_TABLES_H_
