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
    figure.command = command_;
    if (figure.seeds.empty()) figure.seeds = seeds_;
  }
  report_.Add(figure, WriteFigure(figure, folder_));
}

void Page::Keep(const std::string& name, const std::string& text) const { WriteFile(folder_ / name, text); }

void Page::KeepJson(const std::string& name, const nlohmann::ordered_json& json) const { Keep(name, JsonText(json, 1) + "\n"); }

std::filesystem::path Page::Write() const {
  std::filesystem::path path = folder_ / "report.html";
  report_.Write(path);
  return path;
}

}  // namespace heed::lab
