#include "lab/report/figure.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>

#include <cmath>
#include <cstdlib>
#include <limits>
#include <regex>
#include <string>
#include <utility>
#include <vector>

#include "heed/error.h"
#include "lab/report/file.h"
#include "tests/scratch_folder.h"

namespace heed::lab {
namespace {

Figure Named(std::string name, std::variant<LinePlot, HeatMap, BarChart, Diagram> content) {
  Figure figure;
  figure.name = std::move(name);
  figure.title = "Title";
  figure.content = std::move(content);
  return figure;
}

Figure Lines() {
  LinePlot plot{"Step", "Loss, in nats", false, false, {}};
  plot.series.push_back({"rnn", {0, 1, 2}, {3, 2.5, 0.1}, {2, 2, 0}, {4, 3, 1}});
  plot.series.push_back({"it's <50 % & \"more\" {a_b}", {0, 2}, {1, NAN}, {}, {}});
  return Named("lines", plot);
}

Figure Map() { return Named("map", HeatMap{"Key", "Query", 2, 3, {0, 0.5, 1, -1, NAN, 0.25}}); }

Figure Bars() { return Named("bars", BarChart{"Loss", {{"rnn", 1.5, 1.25, 2}, {"100 %", NAN, NAN, NAN}}}); }

Figure Drawing() { return Named("drawing", Diagram{{{0, 0, "x1"}, {1, 0, "x2"}, {0.5, 1, "h<1>"}}, {{0, 2}, {1, 2}}}); }

int Count(const std::string& text, const std::string& part) {
  int count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + part.size())) ++count;
  return count;
}

std::string Draw(const Figure& figure) {
  const ScratchFolder folder;
  const std::string drawing = WriteFigure(figure, folder.path());
  EXPECT_EQ(ReadFile(FilesOf(figure, folder.path()).svg), drawing);
  return drawing;
}

TEST(FormatNumber, ReadsBackAsTheSameDouble) {
  for (const double value : {0.1, 1.0 / 3, 1e300, 5e-324, -123456789.125, std::numeric_limits<double>::max()}) {
    EXPECT_EQ(std::strtod(FormatNumber(value).c_str(), nullptr), value);
  }
  EXPECT_EQ(FormatNumber(0.1), "0.1");
  EXPECT_EQ(FormatNumber(60), "60");
  EXPECT_EQ(FormatNumber(-NAN), "nan");
  EXPECT_EQ(FormatNumber(-INFINITY), "-inf");
}

TEST(Csv, OfEachKind) {
  EXPECT_EQ(FormatCsv(Lines()),
            "series,Step,\"Loss, in nats\",low,high\n"
            "rnn,0,3,2,4\nrnn,1,2.5,2,3\nrnn,2,0.1,0,1\n"
            "\"it's <50 % & \"\"more\"\" {a_b}\",0,1,,\n\"it's <50 % & \"\"more\"\" {a_b}\",2,nan,,\n");
  EXPECT_EQ(FormatCsv(Map()), "Query,0,1,2\n0,0,0.5,1\n1,-1,nan,0.25\n");
  EXPECT_EQ(FormatCsv(Bars()), "name,Loss,low,high\nrnn,1.5,1.25,2\n100 %,nan,nan,nan\n");
  EXPECT_EQ(
      FormatCsv(Drawing()),
      "kind,index,x,y,label,from,to\nnode,0,0,0,x1,,\nnode,1,1,0,x2,,\nnode,2,0.5,1,h<1>,,\narrow,0,,,,0,2\narrow,1,,,,1,2\n");
}

TEST(LinePlot, KeepsEveryNameAndLabelAsWritten) {
  const std::string svg = Draw(Lines());
  EXPECT_NE(svg.find(">rnn<"), std::string::npos);
  EXPECT_NE(svg.find("it's &lt;50 % &amp; "), std::string::npos);
  EXPECT_NE(svg.find("{a_b}"), std::string::npos);
  EXPECT_NE(svg.find(">Loss, in nats<"), std::string::npos);
  EXPECT_NE(svg.find(">Step<"), std::string::npos);
  EXPECT_NE(svg.find("<title>Title</title>"), std::string::npos);
}

TEST(LinePlot, NoLabelIsRunAsACommand) {
  LinePlot plot{"x' ; system 'touch run' ; set title '", "`touch run`\nsystem 'touch run'", false, false, {}};
  plot.series.push_back({"'; system('touch run'); '", {0, 1}, {0, 1}, {}, {}});
  const ScratchFolder folder;
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(folder.path());
  WriteFigure(Named("lines", plot), folder.path());
  std::filesystem::current_path(before);
  EXPECT_EQ(folder.Names(), (std::set<std::string>{"lines.csv", "lines.svg"}));
}

TEST(LinePlot, LogarithmicAxesLeaveOutWhatTheyCannotShow) {
  LinePlot plot{"n", "s", true, true, {{"a", {0, 16, 32, 64}, {1, 1e-3, 0, 1e-1}, {}, {}}}};
  const std::string svg = Draw(Named("lines", plot));
  for (const char* tick : {">16<", ">32<", ">64<"}) EXPECT_NE(svg.find(tick), std::string::npos) << tick;
  plot.series = {{"a", {1, 2}, {-1, NAN}, {}, {}}};
  EXPECT_NE(Draw(Named("lines", plot)).find("no finite values"), std::string::npos);
}

TEST(LinePlot, OnePointAndNoPoint) {
  EXPECT_NE(Draw(Named("lines", LinePlot{"x", "y", false, false, {{"one", {5}, {7}, {}, {}}}})).find(">one<"),
            std::string::npos);
  EXPECT_NE(Draw(Named("lines", LinePlot{"x", "y", false, false, {{"none", {}, {}, {}, {}}}})).find("no finite"),
            std::string::npos);
}

TEST(BarChart, NamesValuesAndWhatIsMissing) {
  const std::string svg = Draw(Bars());
  for (const char* text : {">rnn<", ">100 %<", ">1.5<", ">n/a<"}) EXPECT_NE(svg.find(text), std::string::npos) << text;
  const std::string name = "convolution (dilated), learned positions";
  const BarChart narrow{"Loss", {{name, 1, 1, 1}, {"b", 2, 2, 2}, {"c", 3, 3, 3}, {"d", -4, -4, -4}, {"e", 5, 5, 5}}};
  EXPECT_NE(Draw(Named("bars", narrow)).find(">convolution (dilated), learned positions<"), std::string::npos);
}

TEST(HeatMap, DarkestIsLargestAndLightestIsSmallest) {
  const std::string svg = Draw(Map());
  EXPECT_NE(svg.find("<path fill=\"#08306b\" d=\"M2 0h1v1h-1z\"/>"), std::string::npos) << "value 1 at row 0, column 2";
  EXPECT_NE(svg.find("<path fill=\"#f7fbff\" d=\"M0 1h1v1h-1z\"/>"), std::string::npos) << "value -1 at row 1, column 0";
  EXPECT_NE(svg.find(">Key<"), std::string::npos);
  EXPECT_NE(svg.find(">Query<"), std::string::npos);
}

TEST(HeatMap, EqualNeighboursAreOneRectangleAndCellsAreNoSmallerThanPixels) {
  EXPECT_NE(Draw(Named("map", HeatMap{"x", "y", 1, 4, {1, 1, 1, 1}})).find("M0 0h4v1h-4z"), std::string::npos);
  HeatMap large{"x", "y", 1000, 2000, std::vector<double>(2000000)};
  for (std::size_t i = 0; i < large.values.size(); ++i) large.values[i] = static_cast<double>(i * 2654435761u % 97);
  EXPECT_LE(Count(Draw(Named("map", large)), "M"), 640 * 400);
}

TEST(Diagram, HasItsNodesAndArrows) {
  const std::string svg = Draw(Drawing());
  EXPECT_EQ(Count(svg, "marker-end=\"url(#head)\" d="), 2);
  for (const char* text : {">x1<", ">x2<", ">h&lt;1&gt;<"}) EXPECT_NE(svg.find(text), std::string::npos) << text;
}

TEST(Diagram, AnArrowLeavesOneBoxAtItsSideAndEndsTwoPixelsBeforeTheOther) {
  const std::string svg = Draw(Named("row", Diagram{{{0, 0, "a"}, {1, 0, "b"}}, {{0, 1}}}));
  const auto numbers = [&svg](const char* pattern) {
    std::vector<double> found;
    const std::regex form(pattern);
    for (std::sregex_iterator match(svg.begin(), svg.end(), form), end; match != end; ++match) {
      for (std::size_t i = 1; i < match->size(); ++i) found.push_back(std::stod((*match)[i]));
    }
    return found;
  };
  const std::vector<double> boxes = numbers(R"re(<rect x="(\S+)" y="(\S+)" width="(\S+)" height="(\S+)" rx)re");
  const std::vector<double> arrow = numbers(R"re(d="M(\S+) (\S+)L(\S+) (\S+)"/>\n</g>)re");
  ASSERT_EQ(boxes.size(), 8U);
  ASSERT_EQ(arrow.size(), 4U);
  EXPECT_NEAR(arrow[0], boxes[0] + boxes[2], 0.1);
  EXPECT_NEAR(arrow[1], boxes[1] + boxes[3] / 2, 0.1);
  EXPECT_NEAR(arrow[2], boxes[4] - 2, 0.1);
}

TEST(Diagram, GoesAroundANodeThatStandsBetween) {
  const auto curves = [](const std::vector<Diagram::Arrow>& arrows) {
    return Count(Draw(Named("row", Diagram{{{0, 0, "a"}, {1, 0, "b"}, {2, 0, "c"}, {0, 1, "d"}}, arrows})), "Q");
  };
  EXPECT_EQ(curves({{0, 1}, {1, 2}, {2, 3}}), 0);
  EXPECT_EQ(curves({{0, 1}, {0, 2}}), 1);
}

TEST(WriteFigure, WritesPictureAndNumbersAndNothingElse) {
  const ScratchFolder folder;
  WriteFigure(Map(), folder.path());
  WriteFigure(Bars(), folder.path());
  EXPECT_EQ(ReadFile(FilesOf(Map(), folder.path()).csv), FormatCsv(Map()));
  EXPECT_EQ(folder.Names(), (std::set<std::string>{"bars.csv", "bars.svg", "map.csv", "map.npy", "map.svg"}));
}

TEST(WriteFigure, SaysThatGnuplotIsMissingAndWritesNothing) {
  const ScratchFolder folder;
  const std::string path = std::getenv("PATH");
  setenv("PATH", folder.path().c_str(), 1);
  try {
    WriteFigure(Lines(), folder.path());
    ADD_FAILURE() << "drawn without gnuplot";
  } catch (const FileError& error) {
    EXPECT_NE(std::string(error.what()).find("gnuplot is not installed"), std::string::npos) << error.what();
  }
  setenv("PATH", path.c_str(), 1);
  EXPECT_TRUE(folder.Names().empty());
}

TEST(WriteFile, AFullDiskLeavesTheOldFileAndNoPart) {
  const ScratchFolder folder;
  const std::filesystem::path path = folder.path() / "file";
  WriteFile(path, "old");
  // A limit on file sizes fails a write the way a full disk does.
  struct rlimit before;
  getrlimit(RLIMIT_FSIZE, &before);
  struct rlimit small = before;
  small.rlim_cur = 1 << 16;
  const auto handler = signal(SIGXFSZ, SIG_IGN);
  setrlimit(RLIMIT_FSIZE, &small);
  EXPECT_THROW(WriteFile(path, std::string(1 << 20, 'x')), FileError);
  setrlimit(RLIMIT_FSIZE, &before);
  signal(SIGXFSZ, handler);
  EXPECT_EQ(ReadFile(path), "old");
  EXPECT_EQ(folder.Names(), std::set<std::string>{"file"});
}

TEST(WriteFile, NamesThePathThatCannotBeWritten) {
  const ScratchFolder folder;
  WriteFile(folder.path() / "file", "");
  try {
    WriteFile(folder.path() / "file" / "below", "x");
    ADD_FAILURE() << "a file was made below a file";
  } catch (const FileError& error) {
    EXPECT_NE(std::string(error.what()).find((folder.path() / "file" / "below").string()), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace heed::lab
