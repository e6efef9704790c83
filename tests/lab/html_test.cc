
#include <gtest/gtest.h>

#include <regex>
#include <set>
#include <string>

#include "heed/error.h"
#include "lab/report/environment.h"
#include "lab/report/file.h"
#include "lab/report/page.h"
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

TEST(HtmlTest, EscapesEverythingThatIsText) {
  const ScratchFolder folder;
  Page page("<title> & \"more\"", folder.path(), {}, {});
  page.Section("<script>alert(1)</script>");
  page.Say("a < b & 'c'");
  page.Show(Table{"<caption>", {"<head>", "n"}, {{"<cell>", "1"}}});
  page.Show(Lines("a"));
  const std::string html = ReadFile(page.Write());
  for (const char* raw : {"<script", "<title> &", "a < b", "<caption><", "<head>\"", "<cell>", "A <title>"}) {
    EXPECT_EQ(html.find(raw), std::string::npos) << raw;
  }
  for (const char* escaped : {"&lt;script&gt;", "a &lt; b &amp; &#39;c&#39;", "&lt;caption&gt;", "&lt;head&gt;", "&lt;cell&gt;",
                              "A &lt;title&gt;", "What &amp; where", "--out &quot;a b&quot;"}) {
    EXPECT_NE(html.find(escaped), std::string::npos) << escaped;
  }
}

TEST(HtmlTest, SaysHowEachFigureWasMade) {
  const ScratchFolder folder;
  Page page("Title", folder.path(), {}, {});
  Figure seeded = Lines("seeded");
  seeded.seeds = "seeds 0 to 2";
  for (const Figure& figure : {seeded, Lines("fixed")}) page.Show(figure);
  const std::string html = ReadFile(page.Write());
  const std::string machine = "</span>, on <span class=\"machine\">" + EscapeMarkup(MachineName()) + "</span>. Data: ";
  const std::string command = "Made by <code>heed positions --out &quot;a b&quot;</code>, <span class=\"seeds\">";
  EXPECT_NE(html.find(command + "seeds 0 to 2" + machine + "<a href=\"seeded.csv\">"), std::string::npos);
  EXPECT_NE(html.find(command + "no random numbers" + machine + "<a href=\"fixed.csv\">"), std::string::npos);
  EXPECT_NE(MachineName().find("thread"), std::string::npos);
}

TEST(HtmlTest, ListsItsSections) {
  const ScratchFolder folder;
  Page page("Title", folder.path(), {}, {});
  page.Section("First");
  page.Section("Second");
  const std::string html = ReadFile(page.Write());
  EXPECT_NE(html.find("<a href=\"#section-2\">Second</a>"), std::string::npos);
  EXPECT_NE(html.find("<h2 id=\"section-2\">Second</h2>"), std::string::npos);
}

TEST(HtmlTest, IdsAreUniqueAndEveryReferenceHasItsTarget) {
  const ScratchFolder folder;
  Page page("Title", folder.path(), {}, {});
  for (const char* name : {"a", "b"}) page.Show(Lines(name));
  for (const char* name : {"c", "d"}) page.Show(Map(name));
  const std::string html = ReadFile(page.Write());
  const auto matches = [&html](const char* pattern) {
    std::multiset<std::string> found;
    const std::regex expression(pattern);
    for (std::sregex_iterator match(html.begin(), html.end(), expression), end; match != end; ++match)
      found.insert((*match)[1]);
    return found;
  };
  const std::multiset<std::string> ids = matches("<[^>]* id=[\"']([^\"']*)[\"']");
  EXPECT_GT(ids.size(), 20u) << "the drawings of gnuplot have ids of their own";
  for (const std::string& id : ids) EXPECT_EQ(ids.count(id), 1u) << id;
  for (const std::string& reference : matches("(?:href=[\"']|url\\()#([^\"')]*)"))
    EXPECT_EQ(ids.count(reference), 1u) << reference;
  EXPECT_NE(html.find(">set id=\"gpPt5\"<"), std::string::npos) << "text stays as it was written";
}

TEST(HtmlTest, LinksTheNumbersBesideThePage) {
  const ScratchFolder folder;
  Page page("Title", folder.path(), {}, {});
  page.Show(Map("a"));
  const std::string html = ReadFile(page.Write());
  EXPECT_NE(html.find("<a href=\"a.csv\">CSV</a>, <a href=\"a.npy\">NPY</a>"), std::string::npos);
}

TEST(HtmlTest, NamesNoAddressButThoseOfXmlNames) {
  const ScratchFolder folder;
  Page page("Title", folder.path(), {}, {});
  page.Show(Lines("a"));
  const std::string html = std::regex_replace(ReadFile(page.Write()), std::regex("xmlns(:xlink)?=\"[^\"]*\""), "");
  EXPECT_EQ(html.find("://"), std::string::npos);
  EXPECT_NE(html.find("default-src 'none'"), std::string::npos);
}

TEST(HtmlTest, SetsNumbersFlushRight) {
  const ScratchFolder folder;
  Page page("Title", folder.path(), {}, {});
  page.Show(Table{"", {"name", "loss"}, {{"gru", "1.88 ± 0.01"}, {"lstm", "n/a"}}});
  const std::string html = ReadFile(page.Write());
  EXPECT_NE(html.find("<th>name</th><th class=\"number\">loss</th>"), std::string::npos);
  EXPECT_NE(html.find("<td data-head=\"name\">lstm</td><td class=\"number\" data-head=\"loss\">n/a</td>"), std::string::npos);
}

}  // namespace
}  // namespace heed::lab
