// Moves labels that would cover each other.
#ifndef HEED_LAB_REPORT_LABEL_PLACES_H_
#define HEED_LAB_REPORT_LABEL_PLACES_H_

#include <vector>

namespace heed::lab {

// Places as near as can be to those wanted (least squares), in their order, at least `gap` apart and within [low, high], which
// must hold them all.
std::vector<double> SpreadApart(const std::vector<double>& wanted, double gap, double low, double high);

}  // namespace heed::lab

#endif  // HEED_LAB_REPORT_LABEL_PLACES_H_
