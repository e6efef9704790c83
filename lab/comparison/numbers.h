// What is known about one layer at one length, whether counted on a run or computed from formulas.
#ifndef HEED_LAB_COMPARISON_NUMBERS_H_
#define HEED_LAB_COMPARISON_NUMBERS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "lab/comparison/counted.h"

namespace heed::lab {

struct LayerNumbers {
  Operations projections;         // the four projections of self-attention
  Operations mixing;              // everything else; all there is in the other layers
  int64_t sequential_steps = 0;   // states that must be computed one after the other
  int64_t rounds = 0;             // longest chain of operations, a reduction being one
  int64_t span = 0;               // longest chain of operations, a reduction of m terms being ceil(log2(m))
  int64_t path_length = 0;        // hops from the first to the last position, stacking layers as needed; kNever
  int64_t longest_path = 0;       // the most hops between any two positions that the layer may connect; kNever
  int64_t layers_to_connect = 0;  // layers until first and last position lie in one receptive field; kNever

  int64_t multiply_adds() const { return projections.multiply_adds + mixing.multiply_adds; }
};

struct NamedNumber {
  std::string name;  // letters and '_', as in the header of a CSV file
  int64_t value;
};

// Every number with its name, always in the same order.
std::vector<NamedNumber> Entries(const LayerNumbers& numbers);

// The largest absolute difference of two entries.
int64_t LargestDifference(const LayerNumbers& a, const LayerNumbers& b);

}  // namespace heed::lab

#endif  // HEED_LAB_COMPARISON_NUMBERS_H_
