// The pictures of deep stacks.
#ifndef HEED_BOOK_DEPTH_FIGURES_H_
#define HEED_BOOK_DEPTH_FIGURES_H_

#include <string>
#include <vector>

#include "book/depth/depth.h"
#include "lab/report/figure.h"

namespace heed::lab {

// As stacks start, by layer: distance from all tokens being alike (all in sight, causally, by scheme), entropy and largest
// weight of attention, gradients of states and of queries and keys. Trained: loss and time per token by depth, and the distance
// by layer in the deepest. What was not measured is left out.
std::vector<Figure> DepthFigures(const DepthResult& result);

// The mean over the heads of a layer.
double MeanOver(const std::vector<double>& heads);

}  // namespace heed::lab

#endif  // HEED_BOOK_DEPTH_FIGURES_H_
