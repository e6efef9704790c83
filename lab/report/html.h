// One self-contained HTML page: no network, readable on a screen and on paper.
#ifndef HEED_LAB_REPORT_HTML_H_
#define HEED_LAB_REPORT_HTML_H_

#include <filesystem>
#include <string>
#include <vector>

#include "lab/report/figure.h"

namespace heed::lab {

struct Table {
  std::string caption;
  std::vector<std::string> header;
  std::vector<std::vector<std::string>> rows;
};

// What is added before the first section, a table of contents, then the sections in the order added. Text is escaped; figures
// are inlined as SVG with their ids made unique, their caption, links to the CSV and NPY files (relative to the page) and how
// they were made: the command, its seeds and this machine. The page holds no script and forbids itself every request
// (Content-Security-Policy), so it can be mailed and opened anywhere.
class Report {
 public:
  explicit Report(std::string title);
  void Section(const std::string& heading);
  void Paragraph(const std::string& text);
  void Command(const std::string& command);  // to type
  // To another page, by its place relative to this one; then what it says.
  void LinkTo(const std::string& title, const std::filesystem::path& page, const std::string& text);
  void Add(const Table& table);                              // InvalidArgument where a row is not as long as the header
  void Add(const Figure& figure, const FigureFiles& files);  // reads files.svg; FileError
  void Write(const std::filesystem::path& path) const;       // beside, then renamed; FileError

 private:
  // A figure's links depend on where the page will be, so they are made when it is written.
  struct Part {
    std::string html;
    std::vector<std::filesystem::path> linked;  // the links follow the html
  };
  std::string title_;
  void WriteParts(std::size_t begin, std::size_t end, const std::filesystem::path& path, std::string& page) const;
  std::vector<std::string> headings_;
  std::vector<Part> parts_;
  std::size_t lead_ = 0;  // parts before the first section
  int figures_ = 0;
};

}  // namespace heed::lab

#endif  // HEED_LAB_REPORT_HTML_H_
