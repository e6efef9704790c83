#include "lab/report/result_store.h"

#include <fstream>

#include <gtest/gtest.h>

#include "heed/error.h"
#include "lab/report/environment.h"
#include "lab/report/file.h"
#include "tests/scratch_folder.h"

namespace heed::lab {
namespace {

using Json = nlohmann::ordered_json;

const Json kShared = {{"text", "a"}, {"version", "1"}}, kSettings = {{"steps", 3}, {"lr", 0.1}};
const Json kResult = {{"loss", 1.0 / 3}, {"curve", {1e-17, 2.5}}};

TEST(ResultStoreTest, GivesBackWhatWasKeptBitByBit) {
  const ScratchFolder folder;
  const ResultStore store(folder.path() / "made" / "runs", kShared);
  EXPECT_FALSE(store.Find("gru", kSettings));
  store.Keep("gru", kSettings, kResult);
  ASSERT_TRUE(store.Find("gru", kSettings));
  EXPECT_EQ(*store.Find("gru", kSettings), kResult);
  EXPECT_EQ(store.Find("gru", kSettings)->at("loss").get<double>(), 1.0 / 3);
  EXPECT_FALSE(store.Find("lstm", kSettings)) << "another name";
  store.Keep("gru", kSettings, {{"loss", 2}});
  EXPECT_EQ(store.Find("gru", kSettings)->dump(), R"({"loss":2})") << "the later one";
  EXPECT_EQ(ResultStore(store.folder(), kShared).Find("gru", kSettings)->dump(), R"({"loss":2})") << "another process";
}

TEST(ResultStoreTest, FindsAResultOnlyUnderExactlyItsSettings) {
  const ScratchFolder folder;
  const ResultStore store(folder.path(), kShared);
  store.Keep("gru", kSettings, kResult);
  for (const Json& other :
       {Json{{"steps", 4}, {"lr", 0.1}}, Json{{"steps", 3}}, Json{{"steps", 3}, {"lr", 0.1}, {"seed", 0}},
        Json{{"steps", 3}, {"lr", 0.1000000000000001}}, Json{{"steps", "3"}, {"lr", 0.1}}, Json::object()}) {
    EXPECT_FALSE(store.Find("gru", other)) << other;
  }
  for (const Json& other : {Json{{"text", "b"}, {"version", "1"}}, Json{{"text", "a"}, {"version", "2"}}, Json{{"text", "a"}},
                            Json{{"text", "a"}, {"version", "1"}, {"cpu", "x"}}}) {
    EXPECT_FALSE(ResultStore(folder.path(), other).Find("gru", kSettings)) << other;
  }
  EXPECT_TRUE(store.Find("gru", kSettings));
}

// Two builds that share a folder: neither takes the other's result, and the later one is kept.
TEST(ResultStoreTest, TwoBuildsDoNotTakeEachOthersResults) {
  const ScratchFolder folder;
  Environment environment = ThisEnvironment();
  const ResultStore older(folder.path(), ResultSettings(environment));
  environment.build = "fedcba9876543210";
  const ResultStore newer(folder.path(), ResultSettings(environment));
  older.Keep("gru", kSettings, {{"loss", 1}});
  EXPECT_FALSE(newer.Find("gru", kSettings));
  newer.Keep("gru", kSettings, {{"loss", 2}});
  EXPECT_FALSE(older.Find("gru", kSettings));
  EXPECT_EQ(newer.Find("gru", kSettings)->dump(), R"({"loss":2})");
}

TEST(ResultStoreTest, AFileThatIsNotWholeCountsAsNone) {
  const ScratchFolder folder;
  const ResultStore store(folder.path(), kShared);
  store.Keep("gru", kSettings, kResult);
  const std::filesystem::path file = folder.path() / "gru.json";
  const std::string whole = ReadFile(file);
  for (std::size_t size = 0; size + 2 < whole.size(); ++size) {
    std::ofstream(file, std::ios::binary | std::ios::trunc) << whole.substr(0, size);
    EXPECT_FALSE(store.Find("gru", kSettings)) << "the first " << size << " bytes";
  }
  for (const char* text : {"null", "[]", "3", "{}", R"({"settings":null,"result":1})", "\xff\xfe", "{\"settings\":"}) {
    WriteFile(file, text);
    EXPECT_FALSE(store.Find("gru", kSettings)) << text;
  }
  const Json without = {{"settings", Json::parse(whole).at("settings")}};
  WriteFile(file, without.dump());
  EXPECT_FALSE(store.Find("gru", kSettings)) << "no result";
  WriteFile(file, whole);
  EXPECT_TRUE(store.Find("gru", kSettings));
}

TEST(ResultStoreTest, AFolderInThePlaceOfAResultCountsAsNone) {
  const ScratchFolder folder;
  const ResultStore store(folder.path(), kShared);
  std::filesystem::create_directory(folder.path() / "gru.json");
  EXPECT_FALSE(store.Find("gru", kSettings));
}

TEST(ResultStoreTest, WhatCannotBeWrittenIsAnError) {
  const ScratchFolder folder;
  WriteFile(folder.path() / "file", "in the way");
  const ResultStore store(folder.path() / "file" / "runs", kShared);
  EXPECT_THROW(store.Keep("gru", kSettings, kResult), FileError);
}

}  // namespace
}  // namespace heed::lab
