#include "lab/series/stream.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <string>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include <fmt/core.h>

#include "heed/error.h"
#include "lab/data/random.h"
#include "lab/report/figure.h"
#include "lab/report/file.h"
#include "lab/series/batches.h"
#include "lab/series/csv_table.h"
#include "lab/series/npy_file.h"
#include "lab/series/predictions.h"
#include "lab/series/scores.h"
#include "tests/error_text.h"
#include "tests/scratch_folder.h"

namespace heed::lab {
namespace {

// A batch of another size rounds the sums of a float32 model otherwise: some units in the last place of numbers near 1.
constexpr double kRounding = 1e-5;

// A network that was never trained answers as well as any for these tests.
KeptModel Untrained(SeriesForm form) {
  form.target = "y", form.features = {"x", "z"};
  form.mean = {0.5, 0.5}, form.deviation = form.change = {1, 2};
  if (form.Classifies()) form.classes = {"low", "high"};
  KeptModel model{.name = "GRU", .form = std::move(form), .method = {}};
  SequenceModelOptions network;
  network.encoder = "gru", network.position = "none", network.layers = 1, network.heads = 1, network.width = 4;
  network.ffn_width = 8, network.longest = model.form.steps(), network.features = model.form.width();
  network.outputs = model.form.outputs(), network.pooled = !model.form.each_step, network.causal = model.form.Forecasts();
  if (network.causal) network.features += 2, model.method.arrays["levels"] = at::ones({2});
  model.network = network;
  for (const auto& [name, parameter] : SequenceModel(network)->named_parameters().pairs())
    model.method.arrays[name] = parameter.detach();
  if (!model.form.Classifies()) model.low.assign(model.form.outputs(), -1.0), model.high.assign(model.form.outputs(), 1.0);
  return model;
}

SeriesForm FormOf(const std::string& goal, bool each_step) {
  SeriesForm form;
  form.goal = goal, form.each_step = each_step, form.context = 5, form.longest = 6;
  if (form.Forecasts()) form.horizon = 2;
  return form;
}

struct Layout {
  int64_t sequences, steps;
  bool times = false, mixed = false;  // rows of different sequences in turn
  bool gaps = false;                  // cells of x are empty here and there
};

std::string Rows(const Layout& layout) {
  Random random(5);
  std::string text = "id,t,x,z,y\r\n";
  for (int64_t i = 0; i < layout.sequences * layout.steps; ++i) {
    const int64_t s = layout.mixed ? i % layout.sequences : i / layout.steps;
    const int64_t step = layout.mixed ? i / layout.sequences : i % layout.steps;
    const std::string x = layout.gaps && random.Below(3) > 0 ? "NA" : fmt::format("{}", random.Uniform());
    text += fmt::format("\"s,{}\",{},{},{},{}\n", s, 3 * step + step % 2, x, random.Uniform(), step % 7);
  }
  return text;
}

// All parts together; `parts`: how many there were.
Predictions InParts(const KeptModel& model, SeriesStream& stream, int64_t& parts) {
  Predictions all;
  parts = 0;
  while (const auto part = stream.Next()) {
    Predictions some = Predict(model, *part);
    all.columns = some.columns;
    all.rows.insert(all.rows.end(), some.rows.begin(), some.rows.end());
    ++parts;
  }
  EXPECT_EQ(stream.read(), stream.size());
  return all;
}

void ExpectAlike(const Predictions& parts, const Predictions& whole) {
  ASSERT_EQ(parts.rows.size(), whole.rows.size());
  EXPECT_EQ(parts.columns, whole.columns);
  for (std::size_t row = 0; row < whole.rows.size(); ++row) {
    for (std::size_t cell = 0; cell < whole.columns.size(); ++cell) {
      if (const auto* value = std::get_if<double>(&whole.rows[row][cell])) {
        ASSERT_NEAR(std::get<double>(parts.rows[row][cell]), *value, kRounding) << row;
      } else {
        ASSERT_EQ(parts.rows[row][cell], whole.rows[row][cell]) << row;
      }
    }
  }
}

TEST(StreamTest, PartsOfAnySizeAnswerAsTheWholeDoes) {
  for (SeriesForm form : {FormOf("classification", false), FormOf("regression", true), FormOf("forecast", true)}) {
    for (const Layout& layout :
         {Layout{40, 9}, Layout{40, 2}, Layout{1, 300}, Layout{9, 40, /*times=*/true}, Layout{1, 300, /*times=*/true},
          Layout{7, 30, false, /*mixed=*/true}, Layout{5, 60, false, false, /*gaps=*/true}}) {
      form.sequence = layout.sequences > 1 ? "id" : "";
      form.marks.gaps.assign(layout.gaps ? 1 : 0, "x");
      form.has_times = layout.times, form.time = layout.times ? "t" : "", form.typical_step = 3;
      const KeptModel model = Untrained(form);
      const ScratchFolder folder;
      WriteFile(folder.path() / "rows.csv", Rows(layout));
      int64_t parts = 0;
      const auto whole_stream = CsvStream(model, folder.path() / "rows.csv");
      const Predictions whole = InParts(model, *whole_stream, parts);
      ASSERT_EQ(parts, 1);
      ASSERT_EQ(std::ssize(whole.rows),
                form.each_step ? form.Forecasts() ? 2 * layout.sequences : layout.sequences * layout.steps : layout.sequences);
      for (const int64_t block : {200, 1500}) {
        const auto stream = CsvStream(model, folder.path() / "rows.csv", {}, block);
        ExpectAlike(InParts(model, *stream, parts), whole);
        if (layout.mixed) {
          EXPECT_EQ(parts, 1) << "rows that do not stand together are read whole";
        } else if (layout.sequences > 1 || (form.each_step && !form.Forecasts())) {
          EXPECT_GT(parts, 1);
        }
      }
    }
  }
}

// With targets that a model of the form has: one a sequence, or one a step.
std::string LabelledRows(const SeriesForm& form, const Layout& layout) {
  std::string text = Rows(layout), labelled;
  Random random(6);
  for (int64_t line = -1; !text.empty(); ++line) {
    const std::size_t end = text.find('\n'), comma = text.rfind(',', end);
    const int64_t s = layout.mixed ? line % layout.sequences : line / layout.steps;
    const auto label = static_cast<double>(form.each_step ? random.Below(100) : static_cast<uint64_t>(7 * s % 10));
    const std::string told = form.Classifies() ? std::fmod(label, 3) < 1 ? "low" : "high" : fmt::format("{}", label / 10);
    labelled += text.substr(0, comma) + "," + (line < 0 ? "y" : told) + "\n";
    text.erase(0, end + 1);
  }
  return labelled;
}

// With the last column before the others.
std::string LastFirst(std::string_view text) {
  std::string turned;
  while (!text.empty()) {
    const std::size_t end = text.find('\n'), comma = text.rfind(',', end);
    turned += fmt::format("{},{}\n", text.substr(comma + 1, end - comma - 1), text.substr(0, comma));
    text.remove_prefix(end + 1);
  }
  return turned;
}

TEST(StreamTest, PartsOfAnySizeScoreAsTheWholeDoes) {
  for (SeriesForm form : {FormOf("classification", false), FormOf("classification", true), FormOf("regression", false),
                          FormOf("regression", true), FormOf("forecast", true)}) {
    for (const Layout& layout :
         {Layout{40, 11}, Layout{1, 400}, Layout{9, 40, /*times=*/true}, Layout{7, 30, false, /*mixed=*/true}}) {
      if (layout.sequences == 1 && !form.each_step) continue;
      form.sequence = layout.sequences > 1 ? "id" : "";
      form.has_times = layout.times, form.time = layout.times ? "t" : "", form.typical_step = 3;
      const KeptModel model = Untrained(form);
      const ScratchFolder folder;
      const auto path = folder.path() / "rows.csv";
      WriteFile(path, LabelledRows(form, layout));
      const SeriesScores whole = ScoresOfCsv(model, path, 0.4);
      EXPECT_GT(whole.answers, 5);
      const auto turned = folder.path() / "target_first.csv";
      WriteFile(turned, LastFirst(LabelledRows(form, layout)));
      EXPECT_EQ(ScoresOfCsv(model, turned, 0.4).numbers, whole.numbers) << form.goal;
      for (const int64_t block : {200, 1500}) {
        int64_t parts = 0, read = 0;
        const auto hear = [&](int64_t done, int64_t) { ++parts, read = done; };
        const SeriesScores scores = ScoresOfCsv(model, path, 0.4, {}, hear, block);
        EXPECT_EQ(scores.answers, whole.answers);
        ASSERT_EQ(scores.numbers.size(), whole.numbers.size());
        for (std::size_t i = 0; i < whole.numbers.size(); ++i) {
          EXPECT_EQ(scores.numbers[i].first, whole.numbers[i].first);
          EXPECT_NEAR(scores.numbers[i].second, whole.numbers[i].second, kRounding) << whole.numbers[i].first << form.goal;
        }
        EXPECT_EQ(read, static_cast<int64_t>(std::filesystem::file_size(path)));
        EXPECT_EQ(parts > 1, !layout.mixed) << parts << form.goal;
      }
    }
  }
}

// A season looks farther back than a window does.
TEST(StreamTest, AForecastIsScoredWithTheStepsThatItNeeds) {
  SeriesForm form = FormOf("forecast", true);
  KeptModel model = Untrained(form);
  model.network = {}, model.method = {"season", {{"season", 90}}};
  const ScratchFolder folder;
  std::string text = "x,z,y\r\n";
  for (int64_t i = 0; i < 500; ++i) text += fmt::format("0.5,0.5,{}\r\n", i % 90 + (i > 395 ? 0.5 : 0));
  WriteFile(folder.path() / "rows.csv", text);
  for (const int64_t block : {300, 1 << 20}) {
    const SeriesScores scores = ScoresOfCsv(model, folder.path() / "rows.csv", 0.2, {}, {}, block);
    // Values 400 to 485 are foretold half too low: 171 times by 99 windows of two values.
    EXPECT_EQ(scores.answers, 198);
    EXPECT_EQ(scores.numbers[0].first, "mse");
    EXPECT_NEAR(scores.numbers[0].second, 0.25 * 171 / 198, 1e-6);
    EXPECT_EQ(scores.numbers[2].first, "mase");
    EXPECT_NEAR(scores.numbers[2].second, 0.5 * 171 / 198 / ((394 + 4 * 89 + 1.5) / 399), 1e-6);
  }
}

TEST(StreamTest, TargetsThatDifferWithinASequenceAreNamedAcrossParts) {
  const KeptModel model = Untrained([] {
    SeriesForm form = FormOf("classification", false);
    form.sequence = "id";
    return form;
  }());
  const ScratchFolder folder;
  std::string text = "id,x,z,y\r\n";
  for (int64_t i = 0; i < 100; ++i) text += fmt::format("a,0,0,{}\r\n", i < 70 ? "low" : "high");
  WriteFile(folder.path() / "rows.csv", text);
  for (const int64_t block : {60, 1 << 20}) {
    EXPECT_TRUE(Holds(WhatOf<FileError>([&] { ScoresOfCsv(model, folder.path() / "rows.csv", 0.2, {}, {}, block); }),
                      "row 72, column 'y': it differs from the row before"));
  }
}

TEST(ScoresTest, ClassesByHand) {
  SeriesForm form = FormOf("classification", false);
  form.sequence = "id", form.longest = 1, form.target = "y", form.features = {"u", "v", "w"}, form.classes = {"a", "b", "c"};
  form.mean = {0, 0, 0}, form.deviation = form.change = {1, 1, 1};
  const at::Tensor zero = at::zeros({3}, at::kDouble), one = at::ones({3}, at::kDouble);
  const KeptModel model{.name = "what it reads",
                        .form = form,
                        .method = {"linear",
                                   {{"summaries", false}, {"lengths_differ", false}},
                                   {{"mean", zero}, {"factor", one}, {"W", one.diag()}, {"b", zero}}}};
  const ScratchFolder folder;
  std::string text = "id,u,v,w,y\n";
  for (const auto& [u, v, w, y] :
       {std::tuple(0.5, 0.3, 0.2, "a"), std::tuple(0.2, 0.6, 0.2, "b"), std::tuple(0.5, 0.3, 0.2, "b")})
    text += fmt::format("{},{},{},{},{}\n", text.size(), std::log(u), std::log(v), std::log(w), y);
  WriteFile(folder.path() / "rows.csv", text);
  const auto numbers = ScoresOfCsv(model, folder.path() / "rows.csv", 0.2).numbers;
  EXPECT_NEAR(numbers[0].second, -(std::log(0.5) + std::log(0.6) + std::log(0.3)) / 3, 1e-7);
  EXPECT_NEAR(numbers[1].second, 2.0 / 3, 1e-15);
  EXPECT_NEAR(numbers[2].second, 2.0 / 3, 1e-15) << "of both classes that occur";
  EXPECT_NEAR(numbers[3].second, 0.75, 1e-15) << "the first and the last are equal";
}

TEST(StreamTest, ArraysAreReadSomeRowsAtATime) {
  KeptModel model = Untrained(FormOf("forecast", true));
  model.form.target = "z";
  const ScratchFolder folder;
  std::string bytes = "\x93NUMPY\x01", header = "{'descr': '<f4', 'fortran_order': False, 'shape': (50, 6, 2), }";
  header.resize(117, ' '), header += '\n';
  bytes += std::string(1, '\0') + std::string(1, static_cast<char>(header.size())) + std::string(1, '\0') + header;
  Random random(3);
  for (int64_t i = 0; i < 600; ++i) {
    const auto value = static_cast<float>(random.Uniform());
    bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  WriteFile(folder.path() / "x.npy", bytes);
  int64_t parts = 0;
  const auto whole_stream = NpyStream(model, folder.path() / "x.npy");
  const Predictions whole = InParts(model, *whole_stream, parts);
  ASSERT_EQ(parts, 1);
  EXPECT_EQ(std::get<std::string>(whole.rows.back().front()), "49");
  const auto stream = NpyStream(model, folder.path() / "x.npy", 1000);
  ExpectAlike(InParts(model, *stream, parts), whole);
  EXPECT_EQ(parts, 5);
  const std::vector<double> values = NpyFile(folder.path() / "x.npy").Values();
  EXPECT_EQ(NpyFile(folder.path() / "x.npy").Rows(7, 9), std::vector<double>(values.begin() + 84, values.begin() + 108));
  KeptModel other = model;
  other.form.target = other.form.features.front();
  const SeriesSequence first = NpyStream(other, folder.path() / "x.npy")->Next()->sequences.front();
  EXPECT_EQ(first.targets, (std::vector<double>{values[0], values[2], values[4], values[6], values[8], values[10]}));
  other.form.target = "none of them";
  EXPECT_TRUE(Holds(WhatOf<FileError>([&] { NpyStream(other, folder.path() / "x.npy"); }), "none of the model's features"));
  bytes.resize(bytes.size() - 1);
  WriteFile(folder.path() / "x.npy", bytes);
  EXPECT_TRUE(Holds(WhatOf<FileError>([&] { NpyStream(model, folder.path() / "x.npy"); }), "promises 2400 bytes of values"));
  const float broken = NAN;
  bytes.resize(bytes.size() - 3), bytes.append(reinterpret_cast<const char*>(&broken), sizeof broken);
  WriteFile(folder.path() / "x.npy", bytes);
  const auto with_gap = NpyStream(model, folder.path() / "x.npy", 1000);
  EXPECT_TRUE(Holds(WhatOf<FileError>([&] { InParts(model, *with_gap, parts); }),
                    "x.npy: sequence 49, step 5, 'z': the value is missing, which the model has not met"));
}

// Of rows id, x, z, word: what stands for a cell is told once, however the file is cut, and is the same as an empty cell.
TEST(LaterCellsTest, SixTextsAreNamedAsTheyCame) {
  LaterCells later{LaterCsv()};
  for (const char* text : {"pear", "apple", "pear", "fig", "date", "plum", "lime"}) later.AddNew("fruit", 3, text);
  const std::string six = "pear, apple, fig, date, plum, lime";
  EXPECT_TRUE(Holds(later.Notes().front(), six + ". ")) << later.Notes().front();
  later.AddNew("fruit", 9, "kiwi");
  EXPECT_TRUE(Holds(later.Notes().front(), six + ", ..")) << later.Notes().front();
}

TEST(StreamTest, GapsAndNewTextsAreTold) {
  SeriesForm form = FormOf("classification", false);
  form.sequence = "id", form.marks = {.gaps = {"x"}, .category_columns = {"word", "word"}, .category_names = {"calm", "wild"}};
  const KeptModel model = Untrained(form);
  const ScratchFolder folder;
  std::string text = "id,x,z,word\n", blank = text;
  for (int row = 0; row < 60; ++row) {
    const std::string begin =
        fmt::format("s{},{},{}", row / 5, row == 7 || row == 23 ? "NA" : std::to_string(row % 4), row % 3);
    const std::string word = row == 11 || row == 40 ? "odd" : row == 12 ? "" : row % 2 == 0 ? "calm" : "wild";
    text += fmt::format("{},{}\n", begin, word), blank += fmt::format("{},{}\n", begin, word == "odd" ? "" : word);
  }
  WriteFile(folder.path() / "new.csv", text), WriteFile(folder.path() / "blank.csv", blank);
  const std::string refused = WhatOf<FileError>([&] { CsvStream(model, folder.path() / "new.csv")->Next(); });
  EXPECT_TRUE(Holds(refused, "new.csv: row 13, column 'word': 'odd' is no category of the model, which knows calm, wild;"));
  EXPECT_TRUE(Holds(refused, "give --new-categories as-missing")) << refused;
  LaterCsv later;
  later.new_categories = "as-missing";
  const auto empty_stream = CsvStream(model, folder.path() / "blank.csv");
  int64_t parts = 0;
  const Predictions empty = InParts(model, *empty_stream, parts);
  for (const int64_t block : {150, 1 << 20}) {
    const auto stream = CsvStream(model, folder.path() / "new.csv", later, block);
    ExpectAlike(InParts(model, *stream, parts), empty);
    EXPECT_EQ(parts > 1, block < 1000);
    EXPECT_EQ(stream->Notes(), (std::vector<std::string>{
                                   "'word' lacks 1 of 60 values, the first in row 14: each counts as none of the categories.",
                                   "'x' lacks 2 of 60 values, the first in row 9: the last value before fills each gap.",
                                   "'word' holds texts that the model has not met in 2 of 60 rows, the first in row 13: odd. "
                                   "Each counts as a missing value, which is none of the categories."}));
  }
  later.new_categories = "ignore";
  EXPECT_TRUE(
      Holds(WhatOf<InvalidArgument>([&] { CsvStream(model, folder.path() / "new.csv", later); }), "refuse or as-missing"));
}

// NaN of an array is an empty cell of a file.
TEST(StreamTest, GapsOfAnArrayAreThoseOfAFile) {
  SeriesForm form = FormOf("forecast", true);
  form.marks.gaps = {"z"};
  KeptModel model = Untrained(form);
  const ScratchFolder folder;
  std::string header = "{'descr': '<f8', 'fortran_order': False, 'shape': (3, 8, 2), }", text = "id,x,z,y\n";
  header.resize(117, ' '), header += '\n';
  std::string bytes = "\x93NUMPY\x01" + std::string(1, '\0') + std::string(1, static_cast<char>(header.size())) + '\0' + header;
  Random random(3);
  for (int64_t step = 0; step < 24; ++step) {
    const double values[] = {random.Uniform(), step % 8 > 0 && step % 5 == 0 ? double{NAN} : random.Uniform()};
    bytes.append(reinterpret_cast<const char*>(values), sizeof values);
    text += fmt::format("{},{},{},0\n", step / 8, values[0], std::isnan(values[1]) ? "" : fmt::format("{}", values[1]));
  }
  WriteFile(folder.path() / "x.npy", bytes), WriteFile(folder.path() / "x.csv", text);
  model.form.target = "z";
  const auto array = NpyStream(model, folder.path() / "x.npy");
  const std::optional<SeriesData> of_array = array->Next();
  model.form.sequence = "id";
  const auto file = CsvStream(model, folder.path() / "x.csv");
  const std::optional<SeriesData> of_file = file->Next();
  ASSERT_EQ(of_array->sequences.size(), 3U);
  for (std::size_t s = 0; s < 3; ++s) {
    EXPECT_EQ(of_array->sequences[s].features, of_file->sequences[s].features) << s;
    EXPECT_EQ(std::ssize(of_array->sequences[s].targets), 8) << s;
  }
  EXPECT_EQ(of_array->sequences[0].features[5 * 3 + 2], 1) << "a mark";
  EXPECT_EQ(array->Notes(),
            std::vector<std::string>{
                "'z' lacks 4 of 24 values, the first in sequence 0, step 5: the last value before fills each gap."});
  model.form.marks = {}, model.form.sequence.clear();
  const auto without = NpyStream(model, folder.path() / "x.npy");
  EXPECT_TRUE(Holds(WhatOf<FileError>([&] { without->Next(); }), "x.npy: sequence 0, step 5, 'z': the value is missing"));
}

TEST(StreamTest, ArraysMayLackValues) {
  const ScratchFolder folder;
  const auto X = folder.path() / "X.npy", nothing = folder.path() / "N.npy";
  WriteFile(X, FormatNpy(3, 4, {NAN, 2, 3, 4, 5, NAN, NAN, 8, 9, 10, 11, 12}));
  const SeriesData data = ReadSeriesNpy(X, {}, "forecast");
  EXPECT_EQ(data.marks.gaps, std::vector<std::string>{"feature 0"});
  EXPECT_EQ(data.sequences[1].features, (std::vector<double>{5, 0, 5, 1, 5, 1, 8, 0}));
  EXPECT_EQ(data.sequences[1].targets, (std::vector<double>{5, 5, 5, 8}));
  EXPECT_TRUE(std::isnan(data.sequences[0].targets[0]));
  EXPECT_EQ(data.notes, std::vector<std::string>{"'feature 0' lacks 3 of 12 values: the last value before fills each gap, and "
                                                 "one more feature marks it. No window is scored by a missing value."});
  WriteFile(nothing, FormatNpy(2, 2, std::vector<double>(4, NAN)));
  EXPECT_TRUE(Holds(WhatOf<Error>([&] { ReadSeriesNpy(nothing, {}, "forecast"); }), "'feature 0' holds no value"));
  EXPECT_TRUE(Holds(WhatOf<Error>([&] { ReadSeriesNpy(X, X, "regression"); }), "X.npy: the value at [0, 0] is not finite"));
}

// However a file is cut into blocks, its rows are the same, and so is what is wrong with it.
TEST(StreamTest, BlocksOfAnySizeHoldTheSameRows) {
  const auto rows_of = [](const std::string& text, std::size_t block) {
    std::size_t at = 0;
    CsvBlocks blocks("t", [&](std::string& bytes) {
      bytes += text.substr(at, block), at += block;
      return at < text.size();
    });
    std::string rows;
    while (const auto table = blocks.Next()) {
      for (int64_t row = 0; row < table->rows(); ++row) {
        rows += fmt::format("{}:", table->Line(row));
        for (int64_t column = 0; column < std::ssize(table->columns()); ++column) rows += table->Cell(row, column) + "|";
      }
    }
    return rows;
  };
  EXPECT_EQ(rows_of("\xef\xbb\xbf"
                    "a,b\r\n1,\"x\r\ny \"\"z\"\r\n2,\xc3\xa4\r\n3,4\r\n\r\n\n",
                    3),
            "2:1|x\r\ny \"z|4:2|\xc3\xa4|5:3|4|");
  const std::string marked = std::string("\xef\xbb\xbf") + "a,b\r\n1,\"x\r\ny \"\"z\"\r\n2,\xc3\xa4\r\n3,4\r\n\r\n\n";
  for (const char* text : {marked.c_str(), "a,b\n1,2\n\n3,4\n", "a,b\n1,\"2\n3", "a,b\n1,\xff\n", "a;b\n1;2", "a,b\n",
                           "a,b\n1,2\n3", "", "a,b\n\"1\" 2,3\n", "a,b\r1,2\r3,4\r", "a,b\n1,\xc3"}) {
    std::string whole;
    const std::string wrong = WhatOf<FileError>([&] { whole = rows_of(text, 1000); });
    for (std::size_t block = 1; block < 12; ++block) {
      std::string rows;
      EXPECT_EQ(WhatOf<FileError>([&] { rows = rows_of(text, block); }), wrong) << text << ", blocks of " << block;
      EXPECT_EQ(rows, whole) << text << ", blocks of " << block;
    }
  }
}

TEST(StreamTest, WhatIsWrongFarInAFileIsNamedByItsRow) {
  SeriesForm form = FormOf("classification", false);
  form.sequence = "id", form.time = "t", form.has_times = true;
  const KeptModel model = Untrained(form);
  const ScratchFolder folder;
  const auto error = [&](const std::string& row) {
    WriteFile(folder.path() / "rows.csv", Rows({30, 10}) + row);
    const auto stream = CsvStream(model, folder.path() / "rows.csv", {}, 400);
    int64_t parts = 0;
    return WhatOf<FileError>([&] { InParts(model, *stream, parts); });
  };
  EXPECT_TRUE(Holds(error("\"s,29\",1,0,0,0\n"), "rows.csv: row 302, column 't': times of a sequence must increase"));
  EXPECT_TRUE(Holds(error("new,1,one,0,0\n"), "rows.csv: row 302, column 'x': 'one' is not a finite number"));
  EXPECT_TRUE(Holds(error("new,1,1e200,0,0\n"), "rows.csv: row 302, column 'x': 1e+200 is beyond 1e100"));
  EXPECT_EQ(error("new,1,0,0,0\n"), "");
}

}  // namespace
}  // namespace heed::lab
