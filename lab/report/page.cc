#include "lab/report/page.h"

#include <utility>

#include "lab/report/file.h"
#include "lab/report/json.h"

namespace heed::lab {

Page::Page(const std::string& title, std::filesystem::path folder, std::string command, std::string seeds)
    : folder_(std::move(folder)), command_(std::move(command)), seeds_(std::move(seeds)), report_(title) {}

void Page::Say(const std::string& text) {
  if (!text.empty()) report_.Paragraph(text);
}

void Page::Show(const Table& table) {
  if (!table.rows.empty()) report_.Add(table);
}

void Page::Show(Figure figure) {
  if (figure.command.empty()) {
    figure.command = command_, figure.options_in = options_in_;
    if (figure.seeds.empty()) figure.seeds = seeds_;
  }
  const FigureFiles files = WriteFigure(figure, folder_);
  for (const std::filesystem::path& file : {files.svg, files.csv, files.npy})
    if (!file.empty()) files_.push_back(file.filename().string());
  report_.Add(figure, files);
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
  report_.Write(path);
  return path;
}

}  // namespace heed::lab
