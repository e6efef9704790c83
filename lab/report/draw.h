// One function a kind of picture; each returns a whole SVG document. Internal to lab/report: WriteFigure has checked the
// content and chooses among them.
#ifndef HEED_LAB_REPORT_DRAW_H_
#define HEED_LAB_REPORT_DRAW_H_

#include <string>

#include "lab/report/figure.h"

namespace heed::lab {

std::string DrawLinePlot(const Figure& figure, const LinePlot& plot);   // by gnuplot
std::string DrawBarChart(const Figure& figure, const BarChart& chart);  // by gnuplot
std::string DrawHeatMap(const Figure& figure, const HeatMap& map);
std::string DrawDiagram(const Figure& figure, const Diagram& diagram);

}  // namespace heed::lab

#endif  // HEED_LAB_REPORT_DRAW_H_
