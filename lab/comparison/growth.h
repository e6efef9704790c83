// How cost grows with length, and where one layer's cost passes another's.
#ifndef HEED_LAB_COMPARISON_GROWTH_H_
#define HEED_LAB_COMPARISON_GROWTH_H_

#include <cstdint>
#include <string>
#include <vector>

#include "lab/comparison/layers.h"

namespace heed::lab {

// Cost over length is about length^exponent: least squares on logarithms.
struct PowerLaw {
  double exponent;
  double standard_error;  // of the exponent; 0 for two points
};

// x and y positive, at least two points with different x.
PowerLaw FitPowerLaw(const std::vector<double>& x, const std::vector<double>& y);

struct Growth {
  std::string layer;
  PowerLaw multiply_adds;
  PowerLaw seconds;  // zeros when not measured
};

// The length from which `dearer` costs at least as much as `than`.
struct Crossover {
  std::string dearer, than;
  int64_t multiply_adds;         // the smallest such length; 1 when it is dearer from the start
  double seconds = 0;            // the measured length, between two that were timed; 0 when there is none
  std::string seconds_in_words;  // "about 210", "below 16", "beyond 1024"; "-" when not measured
};

// All that `widths` and `kernel` of these layers allow to say; the four of kAllLayers in their order.
std::vector<Crossover> CountedCrossovers(const std::vector<LayerShape>& layers);

// Where curve `dearer` comes to lie above curve `than` for good, interpolated on logarithms; both over the same increasing
// lengths, positive. Fills seconds and seconds_in_words.
void MeasureCrossover(const std::vector<int64_t>& lengths, const std::vector<double>& dearer, const std::vector<double>& than,
                      Crossover& crossover);

}  // namespace heed::lab

#endif  // HEED_LAB_COMPARISON_GROWTH_H_
