// A page that grows in its folder, with the files that lie beside it.
#ifndef HEED_LAB_REPORT_PAGE_H_
#define HEED_LAB_REPORT_PAGE_H_

#include <filesystem>
#include <string>

#include <nlohmann/json.hpp>

#include "lab/report/html.h"

namespace heed::lab {

// A page that another one names: its title, its place relative to that one, and what it says.
struct PageLink {
  std::string title;
  std::filesystem::path page;
  std::string text;
};

// Every file is written beside and renamed; FileError.
class Page {
 public:
  // The command is told below figures that do not name one of their own, and the seeds where they do not name theirs either.
  Page(const std::string& title, std::filesystem::path folder, std::string command, std::string seeds);

  const std::filesystem::path& folder() const { return folder_; }

  void Section(const std::string& heading) { report_.Section(heading); }
  // What is empty is left out.
  void Say(const std::string& text);
  void Command(const std::string& command) { report_.Command(command); }
  void Name(const PageLink& link) { report_.LinkTo(link.title, link.page, link.text); }
  void Show(const Table& table);
  void Show(Figure figure);
  void Keep(const std::string& name, const std::string& text) const;
  void KeepJson(const std::string& name, const nlohmann::ordered_json& json) const;
  // Writes report.html, in the end, and returns its path.
  std::filesystem::path Write() const;

 private:
  std::filesystem::path folder_;
  std::string command_, seeds_;
  Report report_;
};

}  // namespace heed::lab

#endif  // HEED_LAB_REPORT_PAGE_H_
