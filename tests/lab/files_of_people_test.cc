// Files as people have them: each is read as its hand-cleaned counterpart, or refused by a sentence with its remedy.
#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <string>
#include <vector>

#include <zlib.h>

#include "heed/error.h"
#include "lab/data/text.h"
#include "lab/report/file.h"
#include "lab/series/batches.h"
#include "lab/series/data.h"
#include "tests/error_text.h"
#include "tests/scratch_folder.h"

namespace heed::lab {
namespace {

SeriesData Read(const std::string& contents, const SeriesColumns& columns) {
  const ScratchFolder folder;
  WriteFile(folder.path() / "data.csv", contents);
  return ReadSeriesCsv(folder.path() / "data.csv", columns);
}

std::string ErrorOf(const std::string& contents, const SeriesColumns& columns) {
  return WhatOf<Error>([&] { Read(contents, columns); });
}

std::string Compressed(const std::string& bytes) {
  std::string packed(bytes.size() + 100, '\0');
  z_stream stream = {};
  constexpr int kGzip = 16 + MAX_WBITS;
  EXPECT_EQ(deflateInit2(&stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, kGzip, 8, Z_DEFAULT_STRATEGY), Z_OK);
  std::string from = bytes;
  stream.next_in = reinterpret_cast<Bytef*>(from.data()), stream.avail_in = static_cast<uInt>(from.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data()), stream.avail_out = static_cast<uInt>(packed.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  packed.resize(packed.size() - stream.avail_out);
  deflateEnd(&stream);
  return packed;
}

std::string Joined(const std::vector<std::string>& notes) {
  std::string text;
  for (const std::string& note : notes) text += note + "\n";
  return text;
}

bool Alike(const std::vector<double>& a, const std::vector<double>& b) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i] != b[i] && !(std::isnan(a[i]) && std::isnan(b[i]))) return false;
  }
  return true;
}

constexpr double kDay = 86400;
SeriesColumns Forecast(const std::string& time = "") {
  return {.target = "y", .sequence = "", .time = time, .features = {}, .goal = "forecast"};
}

TEST(FilesOfPeopleTest, SeparatorsMarksAndEncodingsAreFound) {
  struct Case {
    const char* name;
    std::string contents, note;
    CsvOptions csv = {};
  };
  const std::string plain = "x,y\n1.5,2.25\n-3,4\n";
  const std::vector<Case> cases = {
      {"semicolons and decimal commas", "x;y\n1,5;2,25\n-3;4\n", "separated by semicolons, and numbers have decimal commas"},
      {"semicolons and points", "x;y\n1.5;2.25\n-3;4\n", "semicolons, and numbers have decimal points"},
      {"tabs", "x\ty\n1.5\t2.25\n-3\t4\n", "separated by tabs"},
      {"bars", "x|y\n1.5|2.25\n-3|4\n", "separated by bars"},
      {"tabs and decimal commas", "x\ty\r\n1,5\t2,25\r\n-3\t4\r\n", "tabs, and numbers have decimal commas"},
      {"a byte order mark and CRLF", "\xef\xbb\xbfx,y\r\n1.5,2.25\r\n-3,4\r\n", ""},
      {"spaces and no-break spaces",
       "x , y\n 1.5,\xc2\xa0"
       "2.25 \n-3\xc2\xa0,4\n",
       ""},
      {"gzip", Compressed(plain), ""},
      {"a told separator", "x~y\n1.5~2.25\n-3~4\n", "separated by '~'", {.separator = "~"}},
      {"a told decimal comma",
       "x,y\n\"1,5\",\"2,25\"\n-3,4\n",
       "commas, and numbers have decimal commas",
       {.decimal = "comma"}},
      {"blanks beside quotes", " \"x\" ,\t\"y\"\n \"1.5\",\"2.25\"\t\n\"-3\" , 4\n", ""},
      {"quotes around all, and a line end in a name", "\"x\",\"y\"\n\"1.5\",\"2.25\"\n\"-3\",\"4\"\n", ""},
  };
  const SeriesData expected = Read(plain, Forecast());
  ASSERT_EQ(expected.sequences[0].features, (std::vector<double>{1.5, 2.25, -3, 4}));
  for (const Case& one : cases) {
    SeriesColumns columns = Forecast();
    columns.csv = one.csv;
    const SeriesData data = Read(one.contents, columns);
    EXPECT_EQ(data.features, expected.features) << one.name;
    EXPECT_EQ(data.sequences[0].features, expected.sequences[0].features) << one.name;
    EXPECT_EQ(data.sequences[0].targets, expected.sequences[0].targets) << one.name;
    EXPECT_TRUE(one.note.empty() ? data.notes.empty() : Holds(Joined(data.notes), one.note)) << one.name << Joined(data.notes);
  }
  SeriesColumns headerless = Forecast();
  headerless.target = "c2", headerless.csv.header = false;
  const SeriesData data = Read("1.5,2.25\n-3,4\n", headerless);
  EXPECT_EQ(data.features, (std::vector<std::string>{"c1", "c2"}));
  EXPECT_EQ(data.sequences[0].features, expected.sequences[0].features);
  EXPECT_EQ(data.sequences[0].rows, (std::vector<int64_t>{1, 2}));
}

TEST(FilesOfPeopleTest, DatesOfCommonFormsAreMoments) {
  struct Case {
    std::string first, second;
    double apart;
    DateOrder order = DateOrder::kNone;
  };
  const std::vector<Case> cases = {
      {"2012/01/01", "2012/01/02", kDay},
      {"1949-01", "1949-02", 31 * kDay},
      {"1991 Jul", "1991 Aug", 31 * kDay},
      {"\"Jan 1, 2000\"", "\"Jan 2, 2000\"", kDay},
      {"Jan 1 2000", "Jan 2 2000", kDay},
      {"31.12.1999", "01.01.2000", kDay},
      {"30/01/2000", "31/01/2000", kDay},
      {"01/30/2000", "02/01/2000", 2 * kDay},
      {"01/02/2000", "01/03/2000", 29 * kDay, DateOrder::kDay},
      {"01/02/2000", "01/03/2000", kDay, DateOrder::kMonth},
      {"2024-03-01T12:00:00+01:00", "2024-03-01T12:00:00Z", 3600},
      {"1/31/2000 11:30 AM", "1/31/2000 12:30 PM", 3600},
      {"2000 Q1", "2000 Q2", 91 * kDay},
      {"2000Q1", "2000Q2", 91 * kDay},
  };
  for (const Case& one : cases) {
    SeriesColumns columns = Forecast("when");
    columns.date_order = ToString(one.order);
    const SeriesData data = Read("when,y\n" + one.first + ",1\n" + one.second + ",2\n", columns);
    EXPECT_TRUE(data.has_dates) << one.first;
    EXPECT_EQ(data.sequences[0].times[1] - data.sequences[0].times[0], one.apart) << one.first;
  }
}

TEST(FilesOfPeopleTest, GapsTakeTheLastValueAndAMark) {
  const SeriesData data = Read("id,x,z,y\na,,5,1\na,2,NA,2\na,nan,6,?\nb,null,7,4\nb,3,8,5\n",
                               {.target = "y", .sequence = "id", .time = "", .features = {}, .goal = "forecast"});
  EXPECT_EQ(data.features, (std::vector<std::string>{"x", "z", "y"}));
  EXPECT_EQ(data.marks.gaps, data.features);
  // x, z, y, and a mark of each.
  EXPECT_TRUE(Alike(data.sequences[0].features, {NAN, 5, 1, 1, 0, 0, 2, 5, 2, 0, 1, 0, 2, 6, 2, 1, 0, 1}));
  EXPECT_TRUE(Alike(data.sequences[1].features, {NAN, 7, 4, 1, 0, 0, 3, 8, 5, 0, 0, 0})) << "no value of another sequence";
  EXPECT_EQ(data.sequences[0].targets, (std::vector<double>{1, 2, 2}));
  EXPECT_TRUE(Holds(Joined(data.notes), "'x' lacks 3 of 5 values: the last value before fills each gap")) << Joined(data.notes);
  EXPECT_TRUE(Holds(Joined(data.notes), "'y' lacks 1 of 5")) << Joined(data.notes);
  EXPECT_TRUE(Holds(Joined(data.notes), "No window is scored by a missing value"));
}

TEST(FilesOfPeopleTest, WhatIsForetoldOfGapsIsNotScored) {
  std::string whole = "y\n", gaps = "y\n";
  for (int row = 0; row < 100; ++row) {
    whole += std::to_string(row % 7 + row) + "\n";
    gaps += (row == 95 || row == 96 ? std::string("NA") : std::to_string(row % 7 + row)) + "\n";
  }
  const SeriesCut cut{.context = 8, .horizon = 2};
  const SeriesData full = Read(whole, Forecast()), holed = Read(gaps, Forecast());
  // Those that foretell step 95 or 96 end at one of the steps 93 to 95.
  EXPECT_EQ(SeriesBatches(holed, cut).test_count(), SeriesBatches(full, cut).test_count() - 3);
  const SeriesBatches batches(holed, cut);
  const SeriesBatch batch = batches.Make({batches.test_windows().back()});
  EXPECT_EQ(batches.form().width(), 2);
  const int64_t first = batches.test_windows().back().first;
  for (int64_t step = 0; step < batch.steps; ++step) {
    const bool missing = first + step == 95 || first + step == 96;
    EXPECT_EQ(batch.features[2 * step + 1], missing ? 1.0F : 0.0F) << step;
    if (missing) {
      EXPECT_EQ(batch.features[2 * step], 0.0F) << "the last value does not change";
    }
  }
  std::string many = "y\n";
  for (int row = 0; row < 100; ++row) many += row % 2 == 0 ? "1.5\n" : "NA\n";
  EXPECT_TRUE(Holds(WhatOf<Error>([&] { SeriesBatches(Read(many, Forecast()), cut); }), "fewer steps by --horizon"));
}

TEST(FilesOfPeopleTest, TextsAndFlagsAreNumbersToAModel) {
  const std::string table = "id,colour,on,code,y\na,red,True,7,0.5\na,blue,False,8,0.5\nb,,yes,7,0.25\nb,red,no,9,0.25\n";
  SeriesColumns columns{.target = "y", .sequence = "id", .time = "", .features = {}, .goal = "regression"};
  const SeriesData data = Read(table, columns);
  EXPECT_EQ(data.features, (std::vector<std::string>{"on", "code"}));
  EXPECT_EQ(data.marks.category_columns, (std::vector<std::string>{"colour", "colour"}));
  EXPECT_EQ(data.marks.category_names, (std::vector<std::string>{"blue", "red"}));
  EXPECT_TRUE(Alike(data.sequences[0].features, {1, 7, 1, 0, 8, 0}));
  EXPECT_TRUE(Alike(data.sequences[1].features, {1, 7, NAN, 0, 9, 1}));
  EXPECT_TRUE(Holds(Joined(data.notes), "'colour' holds texts of 2 kinds: blue, red")) << Joined(data.notes);
  columns.categories = {"code"};
  const SeriesData codes = Read(table, columns);
  EXPECT_EQ(codes.features, std::vector<std::string>{"on"});
  EXPECT_EQ(codes.marks.Categories(), (std::vector<std::string>{"colour", "code"}));
  EXPECT_TRUE(Alike(codes.sequences[1].features, {1, NAN, 0, 0, 1, 2}));
}

TEST(FilesOfPeopleTest, ColumnsWithNothingToTellAreSaid) {
  const SeriesData data = Read(",x,k,empty,y\n0,1.5,3,,2.5\n1,2.5,3,NA,3.5\n", Forecast());
  EXPECT_EQ(data.features, (std::vector<std::string>{"x", "k", "y"}));
  EXPECT_TRUE(Holds(Joined(data.notes), "The first column, which has no name, is taken for an index and is not read."));
  EXPECT_TRUE(Holds(Joined(data.notes), "'k' is 3 in all rows"));
  EXPECT_TRUE(Holds(Joined(data.notes), "'empty' is empty and is not read."));
  EXPECT_EQ(data.file_columns[0].role, "index");
}

TEST(FilesOfPeopleTest, YearsAreToldToBeNumbers) {
  const std::string rows = "1958,200001,1.5,2.5\n1959,200002,2.5,3.5\n";
  const SeriesData features = Read("year,month,x,y\n" + rows, Forecast());
  EXPECT_TRUE(Holds(Joined(features.notes),
                    "'year' holds numbers from 1958 to 1959, which may be years or months; to a model they "
                    "are numbers; give --time year where rows are ordered by them."))
      << Joined(features.notes);
  EXPECT_TRUE(Holds(Joined(features.notes), "'month' holds numbers from 200001 to 200002, which may be"))
      << Joined(features.notes);
  const SeriesData timed = Read("year,month,x,y\n" + rows, Forecast("year"));
  EXPECT_TRUE(Holds(Joined(timed.notes), "'year' holds numbers from 1958 to 1959: times, but no dates")) << Joined(timed.notes);
  EXPECT_FALSE(Holds(Joined(timed.notes), "--time month")) << Joined(timed.notes);
  for (const char* other :
       {"1958,1\n1958,2\n", "1958,1\n3000,2\n", "1958.5,1\n1959,2\n", "195813,1\n195814,2\n", "58,1\n59,2\n"}) {
    const SeriesData data = Read(std::string("x,y\n") + other, Forecast());
    EXPECT_FALSE(Holds(Joined(data.notes), "may be years")) << other;
  }
}

TEST(FilesOfPeopleTest, WhatIsNotReadIsRefusedWithARemedy) {
  struct Case {
    std::string contents;
    SeriesColumns columns;
    std::string place, remedy;
  };
  SeriesColumns two = Forecast(), never = Forecast();
  two.target = "x,y", never.csv.separator = "5";
  std::string names = "who,y\n";
  for (int row = 0; row < 101; ++row) names += "n" + std::to_string(row) + ",1.5\n";
  const std::vector<Case> cases = {
      {std::string("\xff\xfex\0,\0y\0", 8), Forecast(), "data.csv is UTF-16", "iconv -f UTF-16 -t UTF-8"},
      {"x,y\n1,caf\xe9\n", Forecast(), "no valid character begins at byte 9", "iconv -f WINDOWS-1252"},
      {Compressed("x,y\n1,2\n").substr(0, 20), Forecast(), "cut off", "copy it again"},
      {"x,y\n1,2\n3\n", Forecast(), "row 3: 1 cell where the header has 2", "--separator"},
      {"0,0\n1,2\n", Forecast(), "column '0' is there twice", "--no-header"},
      {"1,2\n3,4\n", Forecast(), "has no column 'y'; it has 1, 2", "--no-header"},
      {"t,y\n01/02/2000,1\n02/02/2000,2\n", Forecast("t"), "row 2, column 't': '01/02/2000' may have its day",
       "--date-order day or"},
      {"t,y\n13/01/2000,1\n01/14/2000,2\n", Forecast("t"), "row 3, column 't': '01/14/2000' has its month first", "2000-12-31"},
      {"t,y\n19580329,1\n19580330,2\n", Forecast("t"), "row 2, column 't': '19580329' reads as a date", "1958-03-29"},
      {"t,y\n2000-01-02,1\n2000-01-01,2\n", Forecast("t"), "row 3, column 't'", "sort the file by it"},
      {"x,y\n1,2\nlow,3\n", Forecast(), "row 3, column 'x': 'low' stands among numbers", "--categories x"},
      {"d,y\n2000-01-01,1\n2000-01-02,2\n", Forecast(), "row 2, column 'd': '2000-01-01' is a date", "--time d"},
      {"x;y\n1,5;1.234,5\n", Forecast(), "row 2, column 'y': '1.234,5' is no number", "write it as 1234,5"},
      {names, Forecast(), "column 'who' holds 101 different texts", "--features"},
      {"t,y\n195803,1\n195804,2\n", Forecast("t"), "row 2, column 't': '195803' reads as a date", "1958-03"},
      {"x,y\n1,2\n3,4\n", two, "'x,y' is no column", "give --target x in one study"},
      {"x,y\n1,2\n3,4\n", never, "told apart by '5'", "choose comma"},
      {"x,y\n1,a\n2,\n",
       {.target = "y", .sequence = "", .time = "", .features = {}, .goal = ""},
       "row 3, column 'y': the value is missing",
       "--goal forecast"},
  };
  for (const Case& one : cases) {
    const std::string error = ErrorOf(one.contents, one.columns);
    EXPECT_TRUE(Holds(error, one.place) && Holds(error, one.remedy)) << one.place << "\n" << error;
  }
  const SeriesData late = Read("y\nNA\n1\n2\n3\n4\n", Forecast());
  EXPECT_TRUE(
      Holds(WhatOf<Error>([&] { SeriesBatches(late, {.context = 1}); }), "row 2, column 'y': the sequence begins without"));
}

// Rows of walks by sequence, x and kind.
std::string NotesOf(const std::string& rows, const char* target = "kind") {
  return Joined(Read(std::string("id,x,") + target + "\n" + rows, {.target = target, .sequence = "id"}).notes);
}

TEST(FilesOfPeopleTest, AMistypedLabelAndAClassOfOneAreTold) {
  const std::string typed = NotesOf("a,1,walk\na,2,walk\nb,1,run\nb,2,run\nc,1,walk\nc,2,wlak\nd,1,run\n");
  EXPECT_TRUE(Holds(typed,
                    "'kind' changes within 1 of 4 sequences, first in 'c' ('walk' in row 6, 'wlak' in row 7): models "
                    "answer each step, not each sequence. If a sequence has one 'kind', mend these rows.\n"))
      << typed;
  EXPECT_TRUE(Holds(typed, "A single row has the class 'wlak' in sequence 'c'.")) << typed;
  EXPECT_FALSE(Holds(NotesOf("a,1,walk\na,2,run\nb,1,jump\nb,2,jump\n"), "'jump'")) << "it has two rows";
  EXPECT_EQ(NotesOf("a,1,walk\nb,1,run\nb,2,run\nc,1,walk\n"),
            "A single sequence has the class 'run' in sequence 'b'. No model can learn from it and be tested on it too; is it "
            "mistyped?\n");
  EXPECT_EQ(
      NotesOf("a,1,0.5\na,2,0.75\n", "y"),
      "'y' changes within 1 of 1 sequences, first in 'a' (0.5 in row 2, 0.75 in row 3): models answer each step, not each "
      "sequence. If a sequence has one 'y', mend these rows.\n");
  EXPECT_EQ(NotesOf("a,1,walk\nb,1,run\nc,2,run\nd,1,walk\n"), "");
}

TEST(FilesOfPeopleTest, TextsAreUnpackedAndLoseAByteOrderMark) {
  const ScratchFolder folder;
  WriteFile(folder.path() / "book.txt.gz", Compressed("\xef\xbb\xbfone\r\ntwo"));
  EXPECT_EQ(ReadText((folder.path() / "book.txt.gz").string()).characters, U"one\ntwo");
  WriteFile(folder.path() / "book.txt", std::string("\xff\xfeo\0n\0", 6));
  EXPECT_TRUE(Holds(WhatOf<Error>([&] { ReadText((folder.path() / "book.txt").string()); }), "is UTF-16; save it as UTF-8"));
  WriteFile(folder.path() / "table.csv.gz", Compressed("a,b\n1,2\n"));
  EXPECT_TRUE(Holds(WhatOf<Error>([&] { ReadText((folder.path() / "table.csv.gz").string()); }), "named as a table"));
}

}  // namespace
}  // namespace heed::lab
