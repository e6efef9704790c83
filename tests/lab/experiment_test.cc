#include "lab/runs/experiment.h"

#include <atomic>
#include <cmath>
#include <filesystem>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "heed/error.h"
#include "lab/report/file.h"
#include "tests/scratch_folder.h"

namespace heed::lab {
namespace {

// Two models, of which the second does not reach the second length; the loss is the seed and a tenth of the part's steps.
struct Sample {
  std::atomic<int> trained = 0;

  Part Of(const std::string& id, int64_t steps) {
    const Measure loss = {.name = "loss", .label = "Loss"};
    return {
        .id = id,
        .models = {{{"gru", "none"}, 8, 100}, {{"attention", "learned"}, 16, 110}},
        .columns = {{loss, 8}, {loss, 16, /*optional=*/true}},
        .steps = steps,
        .settings = {{"width", 4}},
        .train = [this, steps](const SizedContender& model, uint64_t seed, const std::function<void()>& on_step) -> Outcome {
          ++trained;
          for (int64_t i = 0; i < steps; ++i) on_step();
          const double value = static_cast<double>(seed) + static_cast<double>(steps) / 10;
          return {{value, model.attends() ? NAN : value + 1}, {{"encoder", model.encoder}}};
        },
        .check =
            [](const nlohmann::ordered_json& more) {
              if (!more.contains("encoder")) throw InvalidArgument("no encoder");
            }};
  }
};

TEST(RunPartsTest, GivesEveryPartItsMeasurements) {
  Sample sample;
  const auto measured =
      RunParts("test", {sample.Of("a", 1), sample.Of("b", 2)}, {.seed = 3, .seeds = 2, .threads = 2}, nullptr);
  ASSERT_EQ(measured.size(), 2U);
  EXPECT_EQ(sample.trained, 8);
  for (const double steps : {1.0, 2.0}) {
    const Measurements& part = measured[steps == 1 ? 0 : 1];
    EXPECT_EQ(part.part(), steps == 1 ? "a" : "b");
    for (const SizedContender& model : part.models()) {
      EXPECT_EQ(part.Values(model, part.ColumnOf("loss", 8)), (std::vector<double>{3 + steps / 10, 4 + steps / 10}));
      EXPECT_EQ(part.Reaches(model, part.ColumnOf("loss", 16)), !model.attends());
      EXPECT_EQ(part.More(model, 1)["encoder"], model.encoder);
    }
  }
}

TEST(RunPartsTest, FindsInTheStoreWhatItKeptBitByBit) {
  Sample sample;
  const ScratchFolder folder;
  const ResultStore store(folder.path(), {{"version", 1}});
  const Conduct conduct = {.seeds = 2};
  const Part part = sample.Of("a", 1);
  const auto first = RunParts("test", {part}, conduct, &store);
  EXPECT_EQ(folder.Names(), (std::set<std::string>{"a-attention-learned-seed-0.json", "a-attention-learned-seed-1.json",
                                                   "a-gru-seed-0.json", "a-gru-seed-1.json"}));
  const auto again = RunParts("test", {part}, conduct, &store);
  EXPECT_EQ(sample.trained, 4);
  EXPECT_EQ(again.front().Json().dump(), first.front().Json().dump());
  EXPECT_EQ(again.front().More(part.models[0], 0), first.front().More(part.models[0], 0));

  // More seeds leave those that are there; another setting, another number of steps or another width of a model do not.
  RunParts("test", {part}, {.seeds = 3}, &store);
  EXPECT_EQ(sample.trained, 6);
  Part changed = part;
  changed.settings["width"] = 8;
  RunParts("test", {changed}, conduct, &store);
  EXPECT_EQ(sample.trained, 10);
  RunParts("test", {sample.Of("a", 2)}, conduct, &store);
  EXPECT_EQ(sample.trained, 14);
  RunParts("test", {part}, conduct, &store);
  EXPECT_EQ(sample.trained, 18);
  changed = part;
  changed.models[0].ffn_width = 9;
  RunParts("test", {changed}, conduct, &store);
  EXPECT_EQ(sample.trained, 20) << "the other model stays as it was";
}

TEST(RunPartsTest, AResultThatIsNotWholeIsComputedAgain) {
  Sample sample;
  const ScratchFolder folder;
  const ResultStore store(folder.path(), {});
  const Part part = sample.Of("", 1);
  RunParts("test", {part}, {}, &store);
  const std::filesystem::path file = folder.path() / "gru-seed-0.json";
  const auto damage = [&](const auto& change) {
    nlohmann::ordered_json json = nlohmann::ordered_json::parse(ReadFile(file));
    change(json["result"]);
    WriteFile(file, json.dump());
    const int before = sample.trained;
    RunParts("test", {part}, {}, &store);
    return sample.trained - before;
  };
  EXPECT_EQ(damage([](auto&) {}), 0);
  EXPECT_EQ(damage([](auto& result) { result["values"].erase(0); }), 1);
  EXPECT_EQ(damage([](auto& result) { result["values"][0] = "many"; }), 1);
  EXPECT_EQ(damage([](auto& result) { result["values"][0] = nullptr; }), 1) << "a number that every model has";
  EXPECT_EQ(damage([](auto& result) { result["values"] = nlohmann::ordered_json::array(); }), 1);
  EXPECT_EQ(damage([](auto& result) { result["more"].erase("encoder"); }), 1);
  EXPECT_EQ(damage([](auto& result) { result.erase("more"); }), 1);
}

}  // namespace
}  // namespace heed::lab
