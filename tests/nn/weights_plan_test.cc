// A state dict fits whole: buffers, tied parameters and the numbers' range are settled before a module changes.
#include <limits>
#include <string>

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/embedding.h>

#include "heed/error.h"
#include "heed/nn/multi_head_attention.h"
#include "heed/nn/weights.h"
#include "tests/folder_fixture.h"

namespace heed::nn {
namespace {

// An attention layer, running statistics, and an embedding whose numbers are also the last layer's.
struct Model : torch::nn::Module {
  Model() {
    attention = register_module("attention", MultiHeadAttention(8, 2, 0.0));
    bn = register_module("bn", torch::nn::BatchNorm1d(8));
    embedding = register_module("embedding", torch::nn::Embedding(5, 8));
    decoder_weight = register_parameter("decoder_weight", embedding->weight);
    bn->running_mean.normal_();
    bn->num_batches_tracked.fill_(7);
  }
  MultiHeadAttention attention{nullptr};
  torch::nn::BatchNorm1d bn{nullptr};
  torch::nn::Embedding embedding{nullptr};
  at::Tensor decoder_weight;
};

class WeightsPlanTest : public ScratchFolderTest {
 protected:
  // What load_weights says; the model must be unchanged.
  static std::string Refusal(Model& model, const TensorMap& tensors) {
    const TensorMap before = export_weights(model);
    std::string what;
    try {
      load_weights(model, tensors);
      ADD_FAILURE() << "the tensors were accepted";
    } catch (const InvalidArgument& error) {
      what = error.what();
    }
    for (const auto& [name, tensor] : export_weights(model)) EXPECT_TRUE(at::equal(tensor, before.at(name))) << name;
    return what;
  }
  static void ExpectRefused(const TensorMap& tensors, const std::string& part) {
    Model model;
    const std::string what = Refusal(model, tensors);
    EXPECT_NE(what.find(part), std::string::npos) << what;
  }
};

TEST_F(WeightsPlanTest, BuffersAndTiedNamesAreSavedAndLoaded) {
  Model model, other;
  save_weights(model, At("weights.safetensors"));
  load_weights(other, At("weights.safetensors"));
  EXPECT_TRUE(at::equal(other.bn->running_mean, model.bn->running_mean));
  EXPECT_EQ(other.bn->num_batches_tracked.item<int64_t>(), 7);
  EXPECT_TRUE(at::equal(other.decoder_weight, model.embedding->weight));
  EXPECT_TRUE(other.decoder_weight.is_same(other.embedding->weight));

  TensorMap tensors = export_weights(model);
  EXPECT_EQ(tensors.count("decoder_weight"), 1u);
  EXPECT_EQ(tensors.count("bn.running_var"), 1u);
  tensors.erase("decoder_weight");  // one name of the two is enough
  Model third;
  load_weights(third, tensors);
  EXPECT_TRUE(at::equal(third.decoder_weight, model.embedding->weight));
}

TEST_F(WeightsPlanTest, NothingIsLeftOutSilently) {
  const TensorMap good = export_weights(Model());
  TensorMap tensors = good;
  tensors.erase("bn.running_mean");
  ExpectRefused(tensors, "buffer 'bn.running_mean' [8] has no source");
  tensors = good;
  tensors["decoder_weight"] = tensors.at("decoder_weight") + 1;
  ExpectRefused(tensors, "are one tensor, and their sources");
  tensors = good;
  tensors["bn.num_batches_tracked"] = at::scalar_tensor(7.5);
  ExpectRefused(tensors, "is of type Float, buffer 'bn.num_batches_tracked' [] of type Long");
  EXPECT_THROW(export_weights(Model(), Framework::kFlax), InvalidArgument);
}

// Each stands in the parameter that is written last, so that a check on the way would come too late.
TEST_F(WeightsPlanTest, ASourceThatCannotBeUsedChangesNothing) {
  const TensorMap good = export_weights(Model());
  const std::string last = "embedding.weight";
  const auto with = [&](const at::Tensor& tensor) {
    TensorMap tensors = good;
    tensors.erase("decoder_weight");
    tensors[last] = tensor;
    return tensors;
  };
  ExpectRefused(with(at::empty({5, 8}, at::kMeta)), "is on the meta device");
  ExpectRefused(with(at::ones({5, 8}).to_sparse()), "is not dense");
  ExpectRefused(with(at::quantize_per_tensor(at::ones({5, 8}), 0.1, 0, at::kQInt8)), "is quantised");
  ExpectRefused(with(at::ones({5, 8}, at::kComplexFloat)), "holds no floating-point numbers");
  ExpectRefused(with(at::full({5, 8}, 1e300, at::kDouble)), "holds numbers beyond the range of Float");
  ExpectRefused(with(at::full({5, 8}, -1e300, at::kDouble)), "holds numbers beyond the range of Float");
  Model model;
  load_weights(model, with(at::full({5, 8}, -std::numeric_limits<double>::infinity(), at::kDouble)));
  EXPECT_TRUE(at::isneginf(model.decoder_weight).all().item<bool>());
}

TEST_F(WeightsPlanTest, AModuleWithoutNumbersIsRefused) {
  struct Empty : torch::nn::Module {
    Empty() { register_parameter("w", at::empty({2}, at::kMeta)); }
  } empty;
  try {
    load_weights(empty, {{"w", at::ones({2})}});
    FAIL();
  } catch (const InvalidArgument& error) {
    EXPECT_NE(std::string(error.what()).find("parameter 'w' [2] is on the meta device"), std::string::npos) << error.what();
  }
}

TEST_F(WeightsPlanTest, SourcesMayBeViewsOfTheParameters) {
  Model model;
  TensorMap tensors = export_weights(model);
  const at::Tensor query = model.attention->W_q->weight, key = model.attention->W_k->weight;
  const at::Tensor before = query.detach().clone(), other = key.detach().clone();
  tensors["attention.W_q.weight"] = key.detach().t();
  tensors["attention.W_k.weight"] = query.detach();
  load_weights(model, tensors);
  EXPECT_TRUE(at::equal(query, other.t()));
  EXPECT_TRUE(at::equal(key, before));
}

}  // namespace
}  // namespace heed::nn
