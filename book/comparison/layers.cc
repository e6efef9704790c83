#include "book/comparison/layers.h"

#include <algorithm>
#include <memory>

#include "book/comparison/layers/attention.h"
#include "book/comparison/layers/convolution.h"
#include "book/comparison/layers/decomposable.h"
#include "book/comparison/layers/gru.h"
#include "book/comparison/layers/intra_decoder.h"
#include "book/comparison/layers/linear_chunks.h"
#include "book/comparison/layers/linear_mixer.h"
#include "book/comparison/layers/linear_recurrence.h"
#include "book/comparison/layers/lstm.h"
#include "book/comparison/layers/lstmn.h"
#include "book/comparison/layers/rnn.h"
#include "book/comparison/layers/self_attentive.h"
#include "lab/options/fields.h"

namespace heed::lab {
namespace {

template <class Body>
const Layer* Make(Body body) {
  static std::vector<std::unique_ptr<const Layer>> kept;  // of this type of body
  return kept.emplace_back(std::make_unique<LayerOf<Body>>(body)).get();
}

}  // namespace

const std::vector<const Layer*>& AllLayers() {
  static const std::vector<const Layer*> layers = {
      Make(Convolution{.causal = false, .dilated = false}),
      Make(Convolution{.causal = true, .dilated = false}),
      Make(Convolution{.causal = false, .dilated = true}),
      Make(Convolution{.causal = true, .dilated = true}),
      Make(Rnn{}),
      Make(Gru{}),
      Make(Lstm{}),
      Make(LinearRecurrence{.parallel = false}),
      Make(LinearRecurrence{.parallel = true}),
      Make(LinearMixer{LinearMixer::Kind::kLinear}),
      Make(LinearChunks{}),
      Make(LinearMixer{LinearMixer::Kind::kRetention}),
      Make(LinearMixer{LinearMixer::Kind::kMamba2}),
      Make(LinearMixer{LinearMixer::Kind::kGatedDelta}),
      Make(Attention{Attention::Sees::kAll}),
      Make(Attention{Attention::Sees::kEarlier}),
      Make(Attention{Attention::Sees::kWindow}),
      Make(Decomposable{}),
      Make(SelfAttentive{}),
      Make(Lstmn{}),
      Make(IntraDecoder{}),
  };
  return layers;
}

std::vector<std::string> LayerNames() {
  std::vector<std::string> names;
  names.reserve(AllLayers().size());
  for (const Layer* layer : AllLayers()) names.push_back(layer->facts().id);
  return names;
}

std::vector<const Layer*> LayersNamed(const std::vector<std::string>& ids) {
  RequireKnown("encoders", ids, LayerNames());
  std::vector<const Layer*> chosen;
  std::ranges::copy_if(AllLayers(), std::back_inserter(chosen),
                       [&](const Layer* layer) { return std::ranges::count(ids, layer->facts().id) > 0; });
  return chosen;
}

const Layer& LayerNamed(const std::string& id) { return *LayersNamed({id}).front(); }

}  // namespace heed::lab
