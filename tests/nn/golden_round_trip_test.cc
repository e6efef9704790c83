// Every case with parameters: the checkpoint comes in and goes out again bit by bit, and what it was written to fills another
// module with the same numbers; or heed's layer is another one, and the refusal names what it lacks.
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "golden_cases.h"
#include "golden_modules.h"
#include "heed/error.h"
#include "heed/nn/weights.h"
#include "tests/folder_fixture.h"

namespace heed::nn {
namespace {

// What heed's attention does not have.
const std::map<std::string, std::string> kRefused = {
    {"flax_mha_qk_norm", "source 'params/key_ln/scale' [8] has no parameter"},
    {"torch_mha_bias_kv_zero_attn", "source 'bias_k' [1, 1, 16] has no parameter"},
    {"keras_mha_cross_value_dim", "in heed's layout [21, 9], does not fit parameter 'W_v.weight' [15, 9]"},
};
// Attention of other kinds.
const std::set<std::string> kOtherLayers = {"hf_deberta_v2_c2p_p2c", "hf_swin_3x5", "hf_swin_4x4"};

std::vector<std::string> CheckpointNames() {
  std::vector<std::string> names;
  for (const std::string& name : GoldenNames()) {
    const nlohmann::json manifest = GoldenManifest(name);
    if (!manifest.contains("tensors")) continue;
    for (const auto& [tensor, entry] : manifest.at("tensors").items()) {
      if (!tensor.starts_with("param.")) continue;
      names.push_back(name);
      break;
    }
  }
  return names;
}

class GoldenRoundTripTest : public ScratchFolderTest, public testing::WithParamInterface<std::string> {};

void ExpectBitwise(const TensorMap& actual, const TensorMap& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  for (const auto& [name, tensor] : expected) {
    ASSERT_EQ(actual.count(name), 1u) << name;
    EXPECT_EQ(actual.at(name).scalar_type(), tensor.scalar_type()) << name;
    EXPECT_TRUE(at::equal(actual.at(name), tensor)) << name;
  }
}

TEST_P(GoldenRoundTripTest, IsTheIdentity) {
  const GoldenCase golden(GetParam());
  const std::shared_ptr<torch::nn::Module> module = ModuleOf(golden), other = ModuleOf(golden);
  ASSERT_EQ(module == nullptr, kOtherLayers.contains(GetParam()));
  if (module == nullptr) return;
  const TensorMap checkpoint = CheckpointOf(golden);
  if (kRefused.contains(GetParam())) {
    try {
      load_weights(*module, checkpoint, golden.framework());
      FAIL() << "it was accepted";
    } catch (const InvalidArgument& error) {
      EXPECT_NE(std::string(error.what()).find(kRefused.at(GetParam())), std::string::npos) << error.what();
    }
    return;
  }
  load_weights(*module, checkpoint, golden.framework());
  if (golden.options.value("position_embedding_type", "") == "relative_key_query") {
    // One table there is two parameters here, which a file has one name for.
    EXPECT_THROW(export_weights(*module, golden.framework(), LayersOf(golden)), InvalidArgument);
    return;
  }
  ExpectBitwise(export_weights(*module, golden.framework(), LayersOf(golden)), checkpoint);
  save_weights(*module, At("weights.safetensors"), golden.framework(), LayersOf(golden));
  load_weights(*other, At("weights.safetensors"), golden.framework());
  ExpectBitwise(export_weights(*other), export_weights(*module));
}

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(GoldenRoundTripTest);  // without the cases
INSTANTIATE_TEST_SUITE_P(, GoldenRoundTripTest, testing::ValuesIn(CheckpointNames()), CaseName);

}  // namespace
}  // namespace heed::nn
