#include "lab/training/run_folder.h"

#include <fstream>
#include <string>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "heed/error.h"
#include "heed/nn/positions.h"
#include "lab/report/file.h"
#include "lab/training/train.h"
#include "lab/training/trainer.h"
#include "tests/lab/sample_runs.h"
#include "tests/scratch_folder.h"

namespace heed::lab {
namespace {

using PlainJson = nlohmann::json;

RunConfig SampleConfig() {
  RunConfig config;
  config.options = SmallRun("gru");
  config.options.model.objective = Objective::kMasked;
  config.options.lr = 0.1 + 0.2;  // needs all 17 digits
  config.options.seed = ~uint64_t{0};
  config.vocabulary = Vocabulary(U"\n \"\\a\u00e9\U0001f600");
  config.text = Identify(SampleText());
  config.threads = 2;
  return config;
}

// Runs `read` and expects a FileError that names the file and, where given, a word.
template <class Read>
void ExpectFileError(const std::filesystem::path& path, const std::string& word, Read read) {
  try {
    read();
    ADD_FAILURE() << "accepted; expected an error about " << word;
  } catch (const FileError& error) {
    EXPECT_NE(std::string(error.what()).find(path.string()), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find(word), std::string::npos) << error.what();
  }
}

TEST(RunFolder, ConfigurationsComeBackWhole) {
  const ScratchFolder scratch;
  const RunFolder folder(scratch.path() / "run");
  const RunConfig written = SampleConfig();
  folder.WriteConfig(written);
  const RunConfig read = folder.ReadConfig();
  EXPECT_EQ(read.options.model.encoder, "gru");
  EXPECT_EQ(read.options.model.position, "none");
  EXPECT_EQ(read.options.model.objective, Objective::kMasked);
  EXPECT_EQ(read.options.model.width, written.options.model.width);
  EXPECT_EQ(read.options.lr, written.options.lr);
  EXPECT_EQ(read.options.seed, written.options.seed);
  EXPECT_EQ(read.vocabulary.characters(), written.vocabulary.characters());
  EXPECT_EQ(read.text.fingerprint, written.text.fingerprint);
  EXPECT_EQ(read.text.characters, 1800);
  EXPECT_EQ(read.threads, 2);
  EXPECT_EQ(scratch.Names(), (std::set<std::string>{"run"}));
}

TEST(RunFolder, EveryPositionComesBack) {
  const ScratchFolder scratch;
  const RunFolder folder(scratch.path());
  for (const std::string& position : nn::PositionSchemeNames()) {
    RunConfig config = SampleConfig();
    config.options.model.encoder = "attention";
    config.options.model.position = position;
    config.options.model.objective = Objective::kCausal;  // every scheme takes it
    config.options.model.max_distance = 20;
    config.options.model.query_key_norm = "rms";
    folder.WriteConfig(config);
    EXPECT_EQ(folder.ReadConfig().options.model.position, position);
    EXPECT_EQ(folder.ReadConfig().options.model.max_distance, 20);
    EXPECT_EQ(folder.ReadConfig().options.model.query_key_norm, "rms");
  }
}

TEST(RunFolder, TextsAreToldApart) {
  Text text = SampleText();
  const std::string fingerprint = Identify(text).fingerprint;
  EXPECT_EQ(fingerprint.size(), 16u);
  text.characters[1000] ^= 1;
  EXPECT_NE(Identify(text).fingerprint, fingerprint);
}

TEST(RunFolder, DamagedConfigurationsAreRefusedByName) {
  const ScratchFolder scratch;
  const RunFolder folder(scratch.path());
  folder.WriteConfig(SampleConfig());
  const PlainJson good = PlainJson::parse(ReadFile(folder.config()));
  const auto expect = [&](const std::string& word, const auto& damage) {
    PlainJson json = good;
    damage(json);
    WriteFile(folder.config(), json.dump());
    ExpectFileError(folder.config(), word, [&] { folder.ReadConfig(); });
  };
  expect("object", [](PlainJson& j) { j = PlainJson::array(); });
  expect("format", [](PlainJson& j) { j["format"] = 2; });
  expect("format", [](PlainJson& j) { j.erase("format"); });
  expect("model", [](PlainJson& j) { j["model"] = 3; });
  expect("layers", [](PlainJson& j) { j["model"].erase("layers"); });
  expect("layers", [](PlainJson& j) { j["model"]["layers"] = 2.5; });
  expect("layers", [](PlainJson& j) { j["model"]["layers"] = -1; });
  expect("layers", [](PlainJson& j) { j["model"]["layers"] = ~uint64_t{0}; });
  expect("width", [](PlainJson& j) { j["model"]["width"] = "16"; });
  expect("width", [](PlainJson& j) { j["model"]["width"] = 1 << 30; });
  expect("encoder", [](PlainJson& j) { j["model"]["encoder"] = "oracle"; });
  expect("'rotating'", [](PlainJson& j) { j["model"]["encoder"] = "attention", j["model"]["position"] = "rotating"; });
  expect("even head width", [](PlainJson& j) {
    j["model"]["encoder"] = "attention", j["model"]["position"] = "rotary", j["model"]["width"] = 10;
  });
  expect("objective", [](PlainJson& j) { j["model"]["objective"] = "both"; });
  expect("bias", [](PlainJson& j) { j["model"]["bias"] = 1; });
  expect("lr", [](PlainJson& j) { j["training"]["lr"] = "fast"; });
  expect("seed", [](PlainJson& j) { j["training"]["seed"] = -1; });
  expect("vocabulary", [](PlainJson& j) { j["vocabulary"] = ""; });
  expect("vocabulary", [](PlainJson& j) { j["vocabulary"] = "ba"; });
  WriteFile(folder.config(), good.dump().substr(0, 100));
  ExpectFileError(folder.config(), "JSON", [&] { folder.ReadConfig(); });
  std::filesystem::remove(folder.config());
  ExpectFileError(folder.config(), "opened", [&] { folder.ReadConfig(); });
}

TEST(RunFolder, MetricsBeyondTheCheckpointAreDropped) {
  const ScratchFolder scratch;
  const RunFolder folder(scratch.path());
  EXPECT_TRUE(folder.ReadMetrics(100).empty());
  folder.WriteMetrics({{5, 3.25, 3.5, 1000.0}, {10, 0.1 + 0.2, 3.0, 1000.0}});
  EXPECT_EQ(folder.ReadMetrics(9).size(), 1u);
  const std::vector<Metrics> all = folder.ReadMetrics(10);
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[1].train_loss, 0.1 + 0.2);
  std::ofstream(folder.metrics(), std::ios::app) << "{\"step\": 15, \"tra";
  ExpectFileError(folder.metrics(), "line 3", [&] { folder.ReadMetrics(100); });
}

// A file cut at many places, or with another content, is never half believed.
TEST(Checkpoint, DamagedWeightsAreRefusedByName) {
  const ScratchFolder scratch;
  const RunFolder folder(scratch.path() / "run");
  Train(SampleText(), SmallRun(), folder);
  for (const std::filesystem::path& path : {folder.model(), folder.checkpoint()}) {
    const std::string good = ReadFile(path);
    const auto read = [&] {
      path == folder.model() ? static_cast<void>(LoadModel(folder)) : static_cast<void>(Resume(SampleText(), folder));
    };
    for (const std::size_t length : {std::size_t{0}, std::size_t{7}, good.size() / 50, good.size() / 2, good.size() - 1}) {
      WriteFile(path, good.substr(0, length));
      ExpectFileError(path, "", read);
    }
    WriteFile(path, std::string(1000, '\xff'));
    ExpectFileError(path, "", read);
    WriteFile(path, good);
    EXPECT_NO_THROW(read());
  }
}

TEST(Checkpoint, TensorsThatDoNotFitAreRefusedByName) {
  const ScratchFolder scratch;
  const RunFolder folder(scratch.path() / "run");
  Train(SampleText(), SmallRun(), folder);
  const nn::Safetensors good = nn::ReadSafetensors(folder.checkpoint().string());
  const auto expect = [&](const std::string& word, const auto& damage) {
    nn::Safetensors state = good;
    damage(state);
    nn::WriteSafetensors(folder.checkpoint().string(), state.tensors, state.metadata);
    ExpectFileError(folder.checkpoint(), word, [&] { Resume(SampleText(), folder); });
  };
  const std::string name = "model.embedding.weight";
  expect(name, [&](nn::Safetensors& s) { s.tensors.erase(name); });
  expect(name, [&](nn::Safetensors& s) { s.tensors[name] = s.tensors[name].narrow(0, 1, 3).contiguous(); });
  expect(name, [&](nn::Safetensors& s) { s.tensors[name] = s.tensors[name].to(at::kDouble); });
  expect("extra", [&](nn::Safetensors& s) { s.tensors["extra"] = at::zeros({2}); });
  expect("state of the run", [&](nn::Safetensors& s) { s.metadata.clear(); });
  expect("state of the run", [&](nn::Safetensors& s) { s.tensors.erase("torch_generator"); });
  expect("generator", [&](nn::Safetensors& s) { s.tensors["torch_generator"] = at::zeros({3}, at::kByte); });
  expect("malformed", [&](nn::Safetensors& s) { s.metadata["progress"] = "{"; });
  const auto progress = [&](const char* key, const PlainJson& value) {
    return [&good, key, value](nn::Safetensors& s) {
      PlainJson json = PlainJson::parse(good.metadata.at("progress"));
      json[key] = value;
      s.metadata["progress"] = json.dump();
    };
  };
  expect("step", progress("step", 1000));
  expect("step", progress("last_report", -1));
  expect("malformed", progress("data_generator", "x"));
}

// What config.json claims is held against the weights before a model of that size is made.
TEST(Checkpoint, AClaimOfSizeWithoutTheWeightsIsRefused) {
  const ScratchFolder scratch;
  const RunFolder folder(scratch.path() / "run");
  Train(SampleText(), SmallRun(), folder);
  RunConfig config = folder.ReadConfig();
  config.options.model.width = 65536;
  config.options.model.layers = 1024;
  folder.WriteConfig(config);
  ExpectFileError(folder.model(), "fewer weights", [&] { LoadModel(folder); });
  ExpectFileError(folder.checkpoint(), "fewer weights", [&] { Resume(SampleText(), folder); });
}

}  // namespace
}  // namespace heed::lab
