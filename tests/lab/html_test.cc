#include "lab/report/html.h"

#include <gtest/gtest.h>

#include <regex>
#include <set>
#include <string>

#include "heed/error.h"
#include "lab/report/file.h"
#include "lab/report/machine.h"
#include "lab/report/svg.h"
#include "tests/scratch_folder.h"

namespace heed::lab {
namespace {

Figure Lines(const std::string& name) {
  Figure figure;
  figure.name = name;
  figure.title = "A <title>";
  figure.caption = "What & where";
  figure.command = "heed positions --out \"a b\"";
  figure.content = LinePlot{"x", "set id=\"gpPt5\"", false, false, {{"s", {0, 1, 2}, {1, 2, 0}, {}, {}}}};
  return figure;
}

Figure Map(const std::string& name) {
  Figure figure = Lines(name);
  figure.content = HeatMap{"x", "y", 1, 2, {0, 1}};
  return figure;
}

std::string Page(const Report& report, const std::filesystem::path& folder) {
  report.Write(folder / "report.html");
  return ReadFile(folder / "report.html");
}

TEST(Report, EscapesEverythingThatIsText) {
  const ScratchFolder folder;
  Report report("<title> & \"more\"");
  report.Section("<script>alert(1)</script>");
  report.Paragraph("a < b & 'c'");
  report.Add(Table{"<caption>", {"<head>", "n"}, {{"<cell>", "1"}}});
  report.Add(Lines("a"), WriteFigure(Lines("a"), folder.path()));
  const std::string page = Page(report, folder.path());
  for (const char* raw : {"<script", "<title> &", "a < b", "<caption><", "<head>\"", "<cell>", "A <title>"}) {
    EXPECT_EQ(page.find(raw), std::string::npos) << raw;
  }
  for (const char* escaped : {"&lt;script&gt;", "a &lt; b &amp; &#39;c&#39;", "&lt;caption&gt;", "&lt;head&gt;", "&lt;cell&gt;",
                              "A &lt;title&gt;", "What &amp; where", "--out &quot;a b&quot;"}) {
    EXPECT_NE(page.find(escaped), std::string::npos) << escaped;
  }
}

TEST(Report, SaysHowEachFigureWasMade) {
  const ScratchFolder folder;
  Report report("Title");
  Figure seeded = Lines("seeded");
  seeded.seeds = "seeds 0 to 2";
  for (const Figure& figure : {seeded, Lines("fixed")}) report.Add(figure, WriteFigure(figure, folder.path()));
  const std::string page = Page(report, folder.path());
  const std::string machine = "</span>, on <span class=\"machine\">" + EscapeMarkup(MachineName()) + "</span>. Data: ";
  const std::string command = "Made by <code>heed positions --out &quot;a b&quot;</code>, <span class=\"seeds\">";
  EXPECT_NE(page.find(command + "seeds 0 to 2" + machine + "<a href=\"seeded.csv\">"), std::string::npos);
  EXPECT_NE(page.find(command + "no random numbers" + machine + "<a href=\"fixed.csv\">"), std::string::npos);
  EXPECT_NE(MachineName().find("thread"), std::string::npos);
}

TEST(Report, ListsItsSections) {
  const ScratchFolder folder;
  Report report("Title");
  report.Section("First");
  report.Section("Second");
  const std::string page = Page(report, folder.path());
  EXPECT_NE(page.find("<a href=\"#section-2\">Second</a>"), std::string::npos);
  EXPECT_NE(page.find("<h2 id=\"section-2\">Second</h2>"), std::string::npos);
}

TEST(Report, IdsAreUniqueAndEveryReferenceHasItsTarget) {
  const ScratchFolder folder;
  Report report("Title");
  for (const char* name : {"a", "b"}) report.Add(Lines(name), WriteFigure(Lines(name), folder.path()));
  for (const char* name : {"c", "d"}) report.Add(Map(name), WriteFigure(Map(name), folder.path()));
  const std::string page = Page(report, folder.path());
  const auto matches = [&page](const char* pattern) {
    std::multiset<std::string> found;
    const std::regex expression(pattern);
    for (std::sregex_iterator match(page.begin(), page.end(), expression), end; match != end; ++match)
      found.insert((*match)[1]);
    return found;
  };
  const std::multiset<std::string> ids = matches("<[^>]* id=[\"']([^\"']*)[\"']");
  EXPECT_GT(ids.size(), 20u) << "the drawings of gnuplot have ids of their own";
  for (const std::string& id : ids) EXPECT_EQ(ids.count(id), 1u) << id;
  for (const std::string& reference : matches("(?:href=[\"']|url\\()#([^\"')]*)"))
    EXPECT_EQ(ids.count(reference), 1u) << reference;
  EXPECT_NE(page.find(">set id=\"gpPt5\"<"), std::string::npos) << "text stays as it was written";
}

TEST(Report, LinksTheNumbersRelativeToThePage) {
  const ScratchFolder folder;
  Report report("Title");
  report.Add(Map("a"), WriteFigure(Map("a"), folder.path() / "figures & more"));
  const std::string page = Page(report, folder.path());
  EXPECT_NE(page.find("<a href=\"figures%20%26%20more/a.csv\">CSV</a>, <a href=\"figures%20%26%20more/a.npy\">NPY</a>"),
            std::string::npos);
  report.Write(folder.path() / "below" / "report.html");
  EXPECT_NE(ReadFile(folder.path() / "below" / "report.html").find("\"../figures%20%26%20more/a.csv\""), std::string::npos);
}

TEST(Report, NamesNoAddressButThoseOfXmlNames) {
  const ScratchFolder folder;
  Report report("Title");
  report.Add(Lines("a"), WriteFigure(Lines("a"), folder.path()));
  const std::string page = std::regex_replace(Page(report, folder.path()), std::regex("xmlns(:xlink)?=\"[^\"]*\""), "");
  EXPECT_EQ(page.find("://"), std::string::npos);
  EXPECT_NE(page.find("default-src 'none'"), std::string::npos);
}

TEST(Report, SetsNumbersFlushRight) {
  const ScratchFolder folder;
  Report report("Title");
  report.Add(Table{"", {"name", "loss"}, {{"gru", "1.88 ± 0.01"}, {"lstm", "n/a"}}});
  const std::string page = Page(report, folder.path());
  EXPECT_NE(page.find("<th>name</th><th class=\"number\">loss</th>"), std::string::npos);
  EXPECT_NE(page.find("<td data-head=\"name\">lstm</td><td class=\"number\" data-head=\"loss\">n/a</td>"), std::string::npos);
}

TEST(Report, RefusesUnevenTables) {
  Report report("Title");
  EXPECT_THROW(report.Add(Table{"t", {"a", "b"}, {{"1", "2"}, {"3"}}}), InvalidArgument);
}

TEST(Report, RefusesDrawingsThatAreNotOrDoMoreThanDraw) {
  const ScratchFolder folder;
  FigureFiles files{folder.path() / "x.svg", folder.path() / "x.csv", {}};
  Report report("Title");
  EXPECT_THROW(report.Add(Map("x"), files), FileError) << "absent";
  for (const char* svg : {"nothing", "<svg><script>1</script></svg>", "<svg><image href=\"http://a.example/b.png\"/></svg>"}) {
    WriteFile(files.svg, svg);
    EXPECT_THROW(report.Add(Map("x"), files), FileError) << svg;
  }
}

}  // namespace
}  // namespace heed::lab
