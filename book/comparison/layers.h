// The table of layers that are compared.
#ifndef HEED_BOOK_COMPARISON_LAYERS_H_
#define HEED_BOOK_COMPARISON_LAYERS_H_

#include <string>
#include <vector>

#include "book/comparison/layer.h"

namespace heed::lab {

// All of them, in the order of tables and figures.
const std::vector<const Layer*>& AllLayers();

std::vector<std::string> LayerNames();  // their ids

// By their ids, in the order of the table; InvalidArgument lists those known.
std::vector<const Layer*> LayersNamed(const std::vector<std::string>& ids);
const Layer& LayerNamed(const std::string& id);

}  // namespace heed::lab

#endif  // HEED_BOOK_COMPARISON_LAYERS_H_
