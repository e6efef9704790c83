// Figures as comma-separated values (RFC 4180).
#ifndef HEED_LAB_REPORT_CSV_H_
#define HEED_LAB_REPORT_CSV_H_

#include <string>

#include "lab/report/figure.h"

namespace heed::lab {

// The figure's numbers, with a header line:
//   line plot  series, x label, y label[, low, high]   one line a point
//   heat map   y label, 0, 1, ..                       one line a row
//   bars       name, y label[, low, high]              one line a bar
//   diagram    kind, index, x, y, label, from, to      one line a node, then one an arrow
// Numbers read back as the same double; those that are not finite are written nan, inf, -inf.
std::string FormatCsv(const Figure& figure);

}  // namespace heed::lab

#endif  // HEED_LAB_REPORT_CSV_H_
