// The parts of a page as HTML. Text is escaped.
#ifndef HEED_LAB_REPORT_HTML_H_
#define HEED_LAB_REPORT_HTML_H_

#include <cstddef>
#include <string>
#include <vector>

#include "lab/report/figure.h"

namespace heed::lab {

struct Table {
  std::string caption;
  std::vector<std::string> header;
  std::vector<std::vector<std::string>> rows;
};

// The section of this number, from 1 on.
std::string HtmlHeading(std::size_t number, const std::string& heading);
// Throws InvalidArgument where a row is not as long as the header.
std::string HtmlTable(const Table& table);
// The drawing inlined as SVG with its ids made unique by the figure's number, its caption, links to its files, which lie beside
// the page, and how it was made: the command, its seeds and this machine.
std::string HtmlFigure(const Figure& figure, const std::string& drawing, int number);

// One self-contained page, readable on a screen and on paper: the lead, a table of contents, the sections. It holds no script
// and forbids itself every request (Content-Security-Policy), so it can be mailed and opened anywhere.
std::string HtmlPage(const std::string& title, const std::string& lead, const std::vector<std::string>& headings,
                     const std::string& sections);

}  // namespace heed::lab

#endif  // HEED_LAB_REPORT_HTML_H_
