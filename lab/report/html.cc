#include "lab/report/html.h"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <string_view>
#include <utility>

#include "heed/error.h"
#include "lab/report/file.h"
#include "lab/report/machine.h"
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

std::string HeadRow(const Table& table, const std::vector<bool>& numeric) {
  std::string row = "<tr>";
  for (std::size_t i = 0; i < table.header.size(); ++i) {
    row += std::string("<th") + (numeric[i] ? " class=\"number\">" : ">") + EscapeMarkup(table.header[i]) + "</th>";
  }
  return row + "</tr>\n";
}

// On a narrow window each cell stands on a line of its own, beside what its column is called.
std::string Row(const Table& table, const std::vector<std::string>& cells, const std::vector<bool>& numeric) {
  std::string row = "<tr>";
  for (std::size_t i = 0; i < cells.size(); ++i) {
    row += std::string("<td") + (numeric[i] ? " class=\"number\"" : "") + " data-head=\"" + EscapeMarkup(table.header[i]) +
           "\">" + EscapeMarkup(cells[i]) + "</td>";
  }
  return row + "</tr>\n";
}

// Inserts `prefix` after each `opening` in a tag.
void Insert(std::string& tag, std::string_view opening, std::string_view prefix) {
  for (std::size_t at = tag.find(opening); at != std::string::npos;
       at = tag.find(opening, at + opening.size() + prefix.size())) {
    tag.insert(at + opening.size(), prefix);
  }
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
      Insert(tag, opening, prefix);
    prefixed += tag;
    at = close;
    if (at < svg.size()) prefixed += svg[at++];
  }
  return prefixed;
}

// The <svg> element of a file, fit to stand in the page. Whatever a picture has no use for is refused.
std::string InlineSvg(const std::filesystem::path& path, const std::string& prefix) {
  const std::string file = ReadFile(path);
  const std::size_t begin = file.find("<svg"), end = file.rfind("</svg>");
  if (begin == std::string::npos || end == std::string::npos || end < begin)
    throw FileError(path.string() + ": not an SVG drawing");
  const std::string_view svg = std::string_view(file).substr(begin, end + 6 - begin);
  for (const char* forbidden : {"<script", "<foreignObject", "<image", "<!ENTITY", "href=\"http", "href='http"}) {
    if (svg.find(forbidden) != std::string_view::npos) {
      throw FileError(path.string() + ": holds '" + forbidden + "', which a self-contained page cannot take");
    }
  }
  return PrefixIds(svg, prefix);
}

// A path as a relative reference (RFC 3986): every byte but unreserved characters and '/' is percent-encoded.
std::string UrlPath(const std::string& path) {
  constexpr char kDigits[] = "0123456789ABCDEF";
  constexpr std::string_view kPlain = "-._~/";
  std::string url;
  for (const char c : path) {
    const auto byte = static_cast<unsigned char>(c);
    const bool alphanumeric = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    if (alphanumeric || kPlain.find(c) != std::string_view::npos) {
      url += c;
    } else {
      url += {'%', kDigits[byte >> 4], kDigits[byte & 15]};
    }
  }
  return url;
}

std::string Link(const std::filesystem::path& target, const std::filesystem::path& page) {
  const auto whole = [](const std::filesystem::path& path) { return std::filesystem::absolute(path).lexically_normal(); };
  const std::string relative = whole(target).lexically_relative(whole(page).parent_path()).generic_string();
  std::string kind = target.extension().string().substr(1);
  std::transform(kind.begin(), kind.end(), kind.begin(), [](char c) { return c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c; });
  return "<a href=\"" + UrlPath(relative) + "\">" + kind + "</a>";
}

std::string SectionId(std::size_t number) { return "section-" + std::to_string(number); }

}  // namespace

Report::Report(std::string title) : title_(std::move(title)) {}

void Report::Section(const std::string& heading) {
  if (headings_.empty()) lead_ = parts_.size();
  headings_.push_back(heading);
  parts_.push_back({"<h2 id=\"" + SectionId(headings_.size()) + "\">" + EscapeMarkup(heading) + "</h2>\n", {}});
}

void Report::Paragraph(const std::string& text) { parts_.push_back({"<p>" + EscapeMarkup(text) + "</p>\n", {}}); }

void Report::Command(const std::string& command) {
  parts_.push_back({"<p><code class=\"command\">" + EscapeMarkup(command) + "</code></p>\n", {}});
}

void Report::LinkTo(const std::string& title, const std::filesystem::path& page, const std::string& text) {
  parts_.push_back({"<p><a href=\"" + UrlPath(page.generic_string()) + "\">" + EscapeMarkup(title) +
                        "</a>: " + EscapeMarkup(text) + "</p>\n",
                    {}});
}

void Report::Add(const Table& table) {
  for (const std::vector<std::string>& row : table.rows) {
    if (row.size() != table.header.size()) {
      throw InvalidArgument("table '" + table.caption + "': a row has " + std::to_string(row.size()) + " cells, the header " +
                            std::to_string(table.header.size()));
    }
  }
  std::vector<bool> numeric;
  for (std::size_t column = 0; column < table.header.size(); ++column) numeric.push_back(IsNumeric(table, column));
  std::string html = "<div class=\"scroll\"><table>\n";
  if (!table.caption.empty()) html += "<caption>" + EscapeMarkup(table.caption) + "</caption>\n";
  html += "<thead>" + HeadRow(table, numeric) + "</thead>\n<tbody>\n";
  for (const std::vector<std::string>& row : table.rows) html += Row(table, row, numeric);
  parts_.push_back({html + "</tbody>\n</table></div>\n", {}});
}

void Report::Add(const Figure& figure, const FigureFiles& files) {
  const std::string number = std::to_string(figures_ + 1);
  std::string svg = InlineSvg(files.svg, "f" + number + "-");
  svg.insert(4, " role=\"img\" aria-label=\"" + EscapeMarkup(figure.title) +
                    "\" style=\"max-width:" + std::to_string(figure.width) + "px\"");  // after "<svg"
  std::string html = "<figure id=\"figure-" + number + "\">\n" + svg + "\n<figcaption><strong>Figure " + number + ". " +
                     EscapeMarkup(figure.title) + ".</strong> " + EscapeMarkup(figure.caption) + "\n<span class=\"source\">";
  if (!figure.command.empty()) {
    html += "Made by <code>" + EscapeMarkup(figure.command) + "</code>";
    if (!figure.options_in.empty()) {
      const std::string file = EscapeMarkup(figure.options_in);
      html += " (<a href=\"" + file + "\">" + file + "</a> has all options)";
    }
    html += ", <span class=\"seeds\">" + EscapeMarkup(figure.seeds.empty() ? "no random numbers" : figure.seeds) +
            "</span>, on <span class=\"machine\">" + EscapeMarkup(MachineName()) + "</span>. ";
  }
  Part part{html + "Data: ", {files.csv}};
  if (!files.npy.empty()) part.linked.push_back(files.npy);
  parts_.push_back(std::move(part));
  parts_.push_back({"</span></figcaption>\n</figure>\n", {}});
  ++figures_;
}

void Report::Write(const std::filesystem::path& path) const {
  const std::string title = EscapeMarkup(title_);
  std::string page = "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n";
  page += std::string("<meta http-equiv=\"Content-Security-Policy\" content=\"") + kPolicy + "\">\n";
  page += "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n";
  page += "<title>" + title + "</title>\n<style>" + kStyle + "</style>\n</head>\n<body>\n<h1>" + title + "</h1>\n";
  const std::size_t lead = headings_.empty() ? parts_.size() : lead_;
  WriteParts(0, lead, path, page);
  if (headings_.size() > 1) {
    page += "<nav aria-label=\"Contents\"><ol>\n";
    for (std::size_t i = 0; i < headings_.size(); ++i) {
      page += "<li><a href=\"#" + SectionId(i + 1) + "\">" + EscapeMarkup(headings_[i]) + "</a></li>\n";
    }
    page += "</ol></nav>\n";
  }
  WriteParts(lead, parts_.size(), path, page);
  WriteFile(path, page + "</body>\n</html>\n");
}

void Report::WriteParts(std::size_t begin, std::size_t end, const std::filesystem::path& path, std::string& page) const {
  for (std::size_t p = begin; p < end; ++p) {
    page += parts_[p].html;
    const std::vector<std::filesystem::path>& linked = parts_[p].linked;
    for (std::size_t i = 0; i < linked.size(); ++i) page += (i == 0 ? "" : ", ") + Link(linked[i], path);
  }
}

}  // namespace heed::lab
