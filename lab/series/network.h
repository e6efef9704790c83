// A sequence model over batches of labelled sequences.
#ifndef HEED_LAB_SERIES_NETWORK_H_
#define HEED_LAB_SERIES_NETWORK_H_

#include <utility>

#include <ATen/core/Tensor.h>

#include "lab/series/form.h"
#include "lab/training/sequence_model.h"

namespace heed::lab {

class SeriesNetwork {
 public:
  // Starts as SequenceModel does. scales: of a forecast LevelScales, else undefined.
  SeriesNetwork(const SequenceModelOptions& model, at::Tensor scales) : network_(model), scales_(std::move(scales)) {}

  torch::nn::Module& module() { return *network_; }
  // [scored, outputs]: of classes their logits.
  at::Tensor Answers(const SeriesForm& form, const SeriesBatch& batch);

 private:
  SequenceModel network_;
  at::Tensor scales_;
};

}  // namespace heed::lab

#endif  // HEED_LAB_SERIES_NETWORK_H_
