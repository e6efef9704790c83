// Names of parameters as checkpoints spell them, to dotted paths of attributes.
#ifndef HEED_WEIGHTS_SRC_WEIGHT_NAMES_H_
#define HEED_WEIGHTS_SRC_WEIGHT_NAMES_H_

#include <string>
#include <string_view>
#include <vector>

#include "weight_tables.h"

namespace heed {

using NamePath = std::vector<std::string>;

// "a.b/c" by the separators "./": a, b, c
NamePath SplitName(std::string_view name, const char* separators);
std::string JoinName(const NamePath& path, char separator);
// Whether `name` ends with the components of `end`: "W_q.weight" ends "attention.W_q.weight".
bool IsEndOf(std::string_view end, std::string_view name);
// The heads that the module has for a projection, by the parameter's name: "attention.W_k.weight" -> key and value heads; 0 for
// another parameter.
int64_t HeadsOfProjection(const std::vector<AttentionHeads>& attention, const std::string& parameter);

// "blks.0" and "blks_0" as heed numbers them: "blks.block0".
std::string WithNumberedBlocks(const std::string& dotted_name);

// The dotted spelling of each name, with d2l's blocks as heed numbers them:
//   "params/blks_0/attention/W_q/kernel" -> "params.blks.block0.attention.W_q.kernel"
// Names that a framework numbers by itself, layer after layer through the whole program ("dense12_weight" in Gluon,
// "multi_head_attention_2/dense_9/kernel" in Keras), take the paths of the module's layers, in the order in which d2l and heed
// create them: the lowest dense number is the module's first dense layer. `parameters` are the module's own names, in order.
std::vector<std::string> DottedNames(const std::vector<std::string>& names, const std::vector<std::string>& parameters,
                                     Numbering numbering);

}  // namespace heed

#endif  // HEED_WEIGHTS_SRC_WEIGHT_NAMES_H_
