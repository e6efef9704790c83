#include "lab/report/page.h"

#include <utility>

#include "lab/report/file.h"
#include "lab/report/json.h"
#include "lab/report/svg.h"

namespace heed::lab {

Page::Page(std::string title, std::filesystem::path folder, std::string command, std::string seeds)
    : title_(std::move(title)), folder_(std::move(folder)), command_(std::move(command)), seeds_(std::move(seeds)) {}

void Page::Add(const std::string& html) { (headings_.empty() ? lead_ : sections_) += html; }

void Page::Section(const std::string& heading) {
  headings_.push_back(heading);
  Add(HtmlHeading(headings_.size(), heading));
}

void Page::Say(const std::string& text) {
  if (!text.empty()) Add("<p>" + EscapeMarkup(text) + "</p>\n");
}

void Page::Command(const std::string& command) { Add("<p><code class=\"command\">" + EscapeMarkup(command) + "</code></p>\n"); }

void Page::Name(const PageLink& link) {
  Add("<p><a href=\"" + EscapeMarkup(link.page.generic_string()) + "\">" + EscapeMarkup(link.title) +
      "</a>: " + EscapeMarkup(link.text) + "</p>\n");
}

void Page::Show(const Table& table) {
  if (!table.rows.empty()) Add(HtmlTable(table));
}

void Page::Show(Figure figure) {
  if (figure.command.empty()) {
    figure.command = command_, figure.options_in = options_in_;
    if (figure.seeds.empty()) figure.seeds = seeds_;
  }
  Add(HtmlFigure(figure, WriteFigure(figure, folder_), ++figures_));
  const FigureFiles files = FilesOf(figure, folder_);
  for (const std::filesystem::path& file : {files.svg, files.csv, files.npy})
    if (!file.empty()) files_.push_back(file.filename().string());
}

void Page::Keep(const std::string& name, const std::string& text) {
  WriteFile(folder_ / name, text);
  files_.push_back(name);
}

void Page::KeepJson(const std::string& name, const nlohmann::ordered_json& json) { Keep(name, JsonText(json, 1) + "\n"); }

void Page::Shorten(const std::string& command) {
  if (command == command_) return;
  options_in_ = "command.txt";
  Keep(options_in_, command_ + "\n");
  command_ = command;
}

std::filesystem::path Page::Write() const {
  std::filesystem::path path = folder_ / "report.html";
  WriteFile(path, HtmlPage(title_, lead_, headings_, sections_));
  return path;
}

}  // namespace heed::lab
