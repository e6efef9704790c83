#include "lab/report/page.h"

#include <string>

#include <gtest/gtest.h>

#include "lab/report/file.h"
#include "tests/error_text.h"
#include "tests/scratch_folder.h"

namespace heed::lab {
namespace {

Figure Bars(const std::string& name) {
  return {.name = name, .title = "Bars", .caption = {}, .command = {}, .content = BarChart{"y", {{"a", 1, 1, 1}}}};
}

TEST(PageTest, FiguresLieBesideItAndNameItsCommandUnlessTheyHaveOne) {
  const ScratchFolder folder;
  Page page("Title", folder.path() / "new", "heed study --out x", "seeds 0 to 2");
  page.Section("One");
  page.Show(Bars("first"));
  Figure own = Bars("second");
  own.command = "heed positions";
  page.Show(own);
  Figure seeded = Bars("third");
  seeded.seeds = "seed 7";
  page.Show(seeded);
  const std::filesystem::path path = page.Write();
  EXPECT_EQ(path, folder.path() / "new" / "report.html");
  for (const char* file : {"first.svg", "first.csv", "second.svg", "third.csv"}) {
    EXPECT_TRUE(std::filesystem::exists(folder.path() / "new" / file)) << file;
  }
  const std::string html = ReadFile(path);
  EXPECT_TRUE(Holds(html, "<code>heed study --out x</code>, <span class=\"seeds\">seeds 0 to 2</span>")) << html;
  EXPECT_TRUE(Holds(html, "<code>heed positions</code>, <span class=\"seeds\">no random numbers</span>")) << html;
  EXPECT_TRUE(Holds(html, "<code>heed study --out x</code>, <span class=\"seeds\">seed 7</span>")) << html;
}

TEST(PageTest, ContentsStandBehindTheLeadOfSeveralSections) {
  const ScratchFolder folder;
  Page page("Title", folder.path(), {}, {});
  page.Say("The lead.");
  page.Section("First");
  EXPECT_FALSE(Holds(ReadFile(page.Write()), "<nav"));
  page.Section("Second");
  EXPECT_TRUE(Holds(ReadFile(page.Write()), "<p>The lead.</p>\n<nav"));
}

TEST(PageTest, WhatIsEmptyIsLeftOut) {
  const ScratchFolder folder;
  Page page("Title", folder.path(), {}, {});
  page.Say("");
  page.Show(Table{"nothing in it", {"a"}, {}});
  const std::string html = ReadFile(page.Write());
  EXPECT_FALSE(Holds(html, "<p>") || Holds(html, "nothing in it"));
}

TEST(PageTest, KeepsFilesBesideIt) {
  const ScratchFolder folder;
  Page page("Title", folder.path(), {}, {});
  page.Keep("a.csv", "1,2\n");
  page.KeepJson("a.json", nlohmann::ordered_json{{"name", "\xff"}});
  EXPECT_EQ(ReadFile(folder.path() / "a.csv"), "1,2\n");
  EXPECT_EQ(ReadFile(folder.path() / "a.json"), "{\n \"name\": \"\xef\xbf\xbd\"\n}\n") << "a name need not be UTF-8";
}

}  // namespace
}  // namespace heed::lab
