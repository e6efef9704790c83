// A page that grows in its folder, with the files that lie beside it.
#ifndef HEED_LAB_REPORT_PAGE_H_
#define HEED_LAB_REPORT_PAGE_H_

#include <filesystem>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "lab/report/figure.h"

namespace heed::lab {

struct Table {
  std::string caption;
  std::vector<std::string> header;
  std::vector<std::vector<std::string>> rows;  // each as long as the header
};

// A page that another one names: its title, its place relative to that one, and what it says.
struct PageLink {
  std::string title;
  std::filesystem::path page;
  std::string text;
};

// One self-contained page, readable on a screen and on paper. What is added before the first section leads it; a table of
// contents and the sections follow. It holds no script and forbids itself every request (Content-Security-Policy), so it can be
// mailed and opened anywhere. Text is escaped. Every file is written beside and renamed; FileError.
class Page {
 public:
  // Figures without a command of their own show this one, and these seeds unless they have theirs.
  Page(std::string title, std::filesystem::path folder, std::string command, std::string seeds);

  const std::filesystem::path& folder() const { return folder_; }

  void Section(const std::string& heading);
  // What is empty is left out.
  void Say(const std::string& text);
  void Command(const std::string& command);  // to type
  void Name(const PageLink& link);
  void Show(const Table& table);
  // The drawing, its caption, links to its files, which lie beside the page, and how it was made: the command, its seeds and
  // this machine.
  void Show(Figure figure);
  void Keep(const std::string& name, const std::string& text);
  void KeepJson(const std::string& name, const nlohmann::ordered_json& json);
  // The names of the files beside report.html that were written so far.
  const std::vector<std::string>& files() const { return files_; }

  // Below the figures from here on stands this command in place of the page's, which is long and goes into command.txt.
  void Shorten(const std::string& command);

  // Writes report.html, in the end, and returns its path.
  std::filesystem::path Write() const;

 private:
  void Add(const std::string& html);

  std::string title_;
  std::filesystem::path folder_;
  std::string command_, options_in_, seeds_;
  std::string lead_, sections_;  // HTML
  std::vector<std::string> headings_, files_;
  int figures_ = 0;
};

}  // namespace heed::lab

#endif  // HEED_LAB_REPORT_PAGE_H_
