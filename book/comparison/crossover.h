// From which length on self-attention costs at least as much as another layer.
#ifndef HEED_BOOK_COMPARISON_CROSSOVER_H_
#define HEED_BOOK_COMPARISON_CROSSOVER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "book/comparison/layer.h"

namespace heed::lab {

struct Crossover {
  std::string than;            // "its own projections", or the name of a layer
  int64_t scores;              // the smallest length at which scores and sums take at least as many multiply-adds
  int64_t whole = 0;           // the same with the projections; 0 against these themselves
  double seconds = 0;          // the measured length, between two that were timed; 0 when there is none
  std::string in_words = "-";  // "about 210", "below 16", "beyond 1024"; "-" when not measured
};

// Of `attention`, which looks at all positions, against its own projections and against every layer of `layers` that neither
// attends nor is dilated (which costs what the contiguous one costs, but at the ends).
std::vector<Crossover> CountedCrossovers(const Layer& attention, const std::vector<const Layer*>& layers,
                                         const LayerShape& shape);

// Where curve `dearer` comes to lie above curve `than` for good, interpolated on logarithms; both over the same increasing
// lengths, positive. Fills seconds and in_words.
void MeasureCrossover(const std::vector<int64_t>& lengths, const std::vector<double>& dearer, const std::vector<double>& than,
                      Crossover& crossover);

}  // namespace heed::lab

#endif  // HEED_BOOK_COMPARISON_CROSSOVER_H_
