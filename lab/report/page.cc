#include "lab/report/page.h"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <string_view>
#include <utility>

#include <fmt/core.h>
#include <boost/algorithm/string/replace.hpp>

#include "lab/report/environment.h"
#include "lab/report/file.h"
#include "lab/report/json.h"
#include "lab/report/svg.h"

namespace heed::lab {
namespace {

constexpr char kStyle[] = R"(
:root { color-scheme: light dark; --ink: #1d2733; --quiet: #55626f; --line: #d5dbe1; --page: #ffffff; --card: #ffffff; --link: #0b5cad; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e3e8ed; --quiet: #a3aeb9; --line: #3a444e; --page: #14191f; --card: #f4f6f8; --link: #7cbcff; }
}
body { margin: 0 auto; padding: 1.5rem; max-width: 56rem; background: var(--page); color: var(--ink);
  font: 1rem/1.55 system-ui, "Segoe UI", "Liberation Sans", Arial, sans-serif; }
h1 { line-height: 1.2; }
h2 { margin-top: 2.5rem; border-bottom: 1px solid var(--line); padding-bottom: .25rem; }
a { color: var(--link); }
nav { border-left: 3px solid var(--line); padding-left: 1rem; }
nav ol { margin: 0; padding-left: 1.4rem; }
.scroll { overflow-x: auto; margin: 1.25rem 0; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
caption { text-align: left; color: var(--quiet); padding-bottom: .35rem; }
th, td { padding: .25rem .8rem .25rem 0; border-bottom: 1px solid var(--line); text-align: left; vertical-align: top; }
th.number, td.number { text-align: right; }
figure { margin: 1.75rem 0; }
figure svg { display: block; width: 100%; height: auto; box-sizing: border-box; background: #ffffff; border: 1px solid var(--line); border-radius: 6px; }
figcaption { margin-top: .5rem; }
.source { display: block; color: var(--quiet); font-size: .875rem; }
code { font: .875em ui-monospace, "Liberation Mono", monospace; overflow-wrap: anywhere; }
.command { display: block; padding: .5rem .75rem; border: 1px solid var(--line); border-radius: 6px; }
@media screen and (max-width: 40rem) {
  thead { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); }
  table, caption, tbody, tr, td { display: block; }
  tr { border-bottom: 1px solid var(--line); padding: .4rem 0; }
  td { display: flex; justify-content: space-between; gap: 1rem; border: 0; padding: .1rem 0; overflow-wrap: anywhere; }
  td::before { content: attr(data-head); color: var(--quiet); flex: 0 1 45%; }
  td, td.number { text-align: right; }
  td::before { text-align: left; }
  td:first-child { font-weight: 600; }
}
@page { margin: 16mm; }
@media print {
  :root { color-scheme: light; --ink: #000000; --quiet: #444444; --line: #bbbbbb; --page: #ffffff; --link: #000000; }
  body { max-width: none; padding: 0; font-size: 10.5pt; }
  figure, tr { break-inside: avoid; }
  h2, caption { break-after: avoid; }
  .scroll { overflow: visible; }
  th, td { overflow-wrap: anywhere; padding-right: .5rem; }
}
)";

// No script, no font, no picture and no style from anywhere else.
constexpr char kPolicy[] = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'";

// Numbers as tables hold them: "12", "-1e-05", "4x", "5 %", "1.88 ± 0.01", and nothing or "n/a" where there is none.
bool IsNumber(std::string_view cell) {
  if (cell.empty() || cell == "n/a") return true;
  double value = 0;
  if (std::from_chars(cell.data(), cell.data() + cell.size(), value).ec != std::errc()) return false;
  return std::none_of(cell.begin(), cell.end(), [](char c) {
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    return letter && c != 'e' && c != 'x';
  });
}

// Such columns are set flush right.
bool IsNumeric(const Table& table, std::size_t column) {
  return std::all_of(table.rows.begin(), table.rows.end(), [column](const auto& row) { return IsNumber(row[column]); });
}

// The drawing with every id, and every reference to one, prefixed: drawings of one program use the same ids.
std::string PrefixIds(std::string_view svg, const std::string& prefix) {
  std::string prefixed;
  std::size_t at = 0;
  while (at < svg.size()) {
    const std::size_t open = std::min(svg.find('<', at), svg.size());
    const std::size_t close = std::min(svg.find('>', open), svg.size());
    prefixed += svg.substr(at, open - at);
    std::string tag(svg.substr(open, close - open));
    for (const char* opening : {" id=\"", " id='", "href=\"#", "href='#", "url(#", "url('#", "url(\"#"})
      boost::replace_all(tag, opening, opening + prefix);
    prefixed += tag;
    at = close;
    if (at < svg.size()) prefixed += svg[at++];
  }
  return prefixed;
}

std::string HtmlTable(const Table& table) {
  std::vector<const char*> kinds;
  std::string head, body;
  for (std::size_t i = 0; i < table.header.size(); ++i) {
    kinds.push_back(IsNumeric(table, i) ? " class=\"number\"" : "");
    head += fmt::format("<th{}>{}</th>", kinds[i], EscapeMarkup(table.header[i]));
  }
  for (const std::vector<std::string>& row : table.rows) {
    body += "<tr>";
    // On a narrow window each cell stands on a line of its own, beside what its column is called.
    for (std::size_t i = 0; i < row.size(); ++i) {
      body += fmt::format("<td{} data-head=\"{}\">{}</td>", kinds[i], EscapeMarkup(table.header[i]), EscapeMarkup(row[i]));
    }
    body += "</tr>\n";
  }
  const std::string caption = table.caption.empty() ? "" : "<caption>" + EscapeMarkup(table.caption) + "</caption>\n";
  return fmt::format("<div class=\"scroll\"><table>\n{}<thead><tr>{}</tr>\n</thead>\n<tbody>\n{}</tbody>\n</table></div>\n",
                     caption, head, body);
}

// The drawing inlined as SVG with its ids made unique by the number of the figure.
std::string HtmlFigure(const Figure& figure, const std::string& drawing, int number) {
  const std::size_t begin = drawing.find("<svg"), end = drawing.rfind('>') + 1;  // without what XML puts before
  const std::string svg = PrefixIds(std::string_view(drawing).substr(begin, end - begin), fmt::format("f{}-", number));
  const std::string title = EscapeMarkup(figure.title);
  std::string html = fmt::format(
      "<figure id=\"figure-{0}\">\n<svg role=\"img\" aria-label=\"{1}\" style=\"max-width:{2}px\"{3}\n"
      "<figcaption><strong>Figure {0}. {1}.</strong> {4}\n<span class=\"source\">",
      number, title, figure.width, svg.substr(std::string_view("<svg").size()), EscapeMarkup(figure.caption));
  if (!figure.command.empty()) {
    html += "Made by <code>" + EscapeMarkup(figure.command) + "</code>";
    if (!figure.options_in.empty())
      html += fmt::format(" (<a href=\"{0}\">{0}</a> has all options)", EscapeMarkup(figure.options_in));
    html += fmt::format(", <span class=\"seeds\">{}</span>, on <span class=\"machine\">{}</span>. ",
                        EscapeMarkup(figure.seeds.empty() ? "no random numbers" : figure.seeds), EscapeMarkup(MachineName()));
  }
  const FigureFiles files = FilesOf(figure, {});
  html += fmt::format("Data: <a href=\"{}\">CSV</a>", files.csv.string());
  if (!files.npy.empty()) html += fmt::format(", <a href=\"{}\">NPY</a>", files.npy.string());
  return html + "</span></figcaption>\n</figure>\n";
}

}  // namespace

Page::Page(std::string title, std::filesystem::path folder, std::string command, std::string seeds)
    : title_(std::move(title)), folder_(std::move(folder)), command_(std::move(command)), seeds_(std::move(seeds)) {}

void Page::Add(const std::string& html) { (headings_.empty() ? lead_ : sections_) += html; }

void Page::Section(const std::string& heading) {
  headings_.push_back(heading);
  Add(fmt::format("<h2 id=\"section-{}\">{}</h2>\n", headings_.size(), EscapeMarkup(heading)));
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
  std::string contents;
  for (std::size_t i = 0; i < headings_.size(); ++i)
    contents += fmt::format("<li><a href=\"#section-{}\">{}</a></li>\n", i + 1, EscapeMarkup(headings_[i]));
  contents = headings_.size() > 1 ? "<nav aria-label=\"Contents\"><ol>\n" + contents + "</ol></nav>\n" : "";
  const std::string html = fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"{0}\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<title>{1}</title>\n<style>{2}</style>\n</head>\n<body>\n<h1>{1}</h1>\n{3}{4}{5}</body>\n</html>\n",
      kPolicy, EscapeMarkup(title_), kStyle, lead_, contents, sections_);
  WriteFile(path, html);
  return path;
}

}  // namespace heed::lab
