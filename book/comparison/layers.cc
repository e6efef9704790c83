#include "book/comparison/layer.h"

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <numeric>

#include "book/comparison/layers/attention.h"
#include "book/comparison/layers/attention_models.h"
#include "book/comparison/layers/convolution.h"
#include "book/comparison/layers/linear_chunks.h"
#include "book/comparison/layers/linear_mixer.h"
#include "book/comparison/layers/recurrences.h"
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

int64_t LayerNumbers::multiply_adds() const { return std::accumulate(products.begin(), products.end(), int64_t{0}); }

std::vector<NamedNumber> Entries(const LayerNumbers& numbers) {
  std::vector<NamedNumber> entries = {{"multiply_adds", numbers.multiply_adds()}};
  for (std::size_t term = 0; term < numbers.products.size(); ++term) {
    std::string name = kTermNames[term];
    std::ranges::replace(name, ' ', '_');
    entries.push_back({name, numbers.products[term]});
  }
  const Operations& others = numbers.operations;
  entries.insert(entries.end(), {{"multiplications", others.multiplications},
                                 {"additions", others.additions},
                                 {"divisions", others.divisions},
                                 {"comparisons", others.comparisons},
                                 {"exponentials", others.exponentials},
                                 {"sigmoids", others.sigmoids},
                                 {"hyperbolic_tangents", others.hyperbolic_tangents},
                                 {"softpluses", others.softpluses},
                                 {"inverse_roots", others.inverse_roots},
                                 {"sequential_steps", numbers.sequential_steps},
                                 {"rounds", numbers.rounds},
                                 {"span", numbers.span},
                                 {"memory", numbers.memory},
                                 {"path_length", numbers.path_length},
                                 {"longest_path", numbers.longest_path},
                                 {"layers_to_connect", numbers.layers_to_connect}});
  return entries;
}

int64_t LargestDifference(const LayerNumbers& a, const LayerNumbers& b) {
  const std::vector<NamedNumber> of_a = Entries(a), of_b = Entries(b);
  int64_t largest = 0;
  for (std::size_t i = 0; i < of_a.size(); ++i) largest = std::max(largest, std::abs(of_a[i].value - of_b[i].value));
  return largest;
}

}  // namespace heed::lab
