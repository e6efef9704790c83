// One function a kind of picture; each returns a whole SVG document. Internal to lab/report: WriteFigure calls them.
#ifndef HEED_LAB_REPORT_DRAW_H_
#define HEED_LAB_REPORT_DRAW_H_

#include <string>

#include "lab/report/figure.h"

namespace heed::lab {

std::string Draw(const Figure& figure, const LinePlot& plot);   // by gnuplot
std::string Draw(const Figure& figure, const BarChart& chart);  // by gnuplot
std::string Draw(const Figure& figure, const HeatMap& map);
std::string Draw(const Figure& figure, const Diagram& diagram);

}  // namespace heed::lab

#endif  // HEED_LAB_REPORT_DRAW_H_
