// Names of parameters: from a framework's spelling to dotted paths of attributes and back.
#ifndef HEED_INFERENCE_SRC_WEIGHT_NAMES_H_
#define HEED_INFERENCE_SRC_WEIGHT_NAMES_H_

#include <cstddef>
#include <string>
#include <vector>

#include "weight_tables.h"

namespace heed {

// The dotted spelling of each name, with d2l's blocks as heed numbers them ("blks.block0"):
//   "params/blks_0/attention/W_q/kernel" -> "params.blks.block0.attention.W_q.kernel"
// Names that a framework numbers by itself, layer after layer through the whole program ("dense12_weight" in Gluon,
// "multi_head_attention_2/dense_9/kernel" in Keras), take the paths of the module's layers, in the order in which d2l and heed
// create them: the lowest dense number is the module's first dense layer. `parameters` are the module's own names, in order.
std::vector<std::string> DottedNames(const std::vector<std::string>& names, const std::vector<std::string>& parameters);

// How many leading components all names share; the last component of a name never counts.
std::size_t SharedComponents(const std::vector<std::string>& dotted_names);
std::string WithoutComponents(const std::string& dotted_name, std::size_t count);

// The inverse spelling, for a name whose last components are already the framework's.
std::string NativeName(const std::string& dotted_name, const FrameworkTable& table);

}  // namespace heed

#endif  // HEED_INFERENCE_SRC_WEIGHT_NAMES_H_
