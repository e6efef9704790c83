// A sequence model over batches of labelled sequences.
#ifndef HEED_LAB_SERIES_NETWORK_H_
#define HEED_LAB_SERIES_NETWORK_H_

#include <optional>
#include <utility>

#include <ATen/core/Tensor.h>

#include "lab/series/form.h"
#include "lab/series/levels.h"
#include "lab/training/sequence_model.h"

namespace heed::lab {

class SeriesNetwork {
 public:
  // Starts as SequenceModel does. `levels`: of a forecast alone.
  SeriesNetwork(const SequenceModelOptions& model, std::optional<RelativeLevels> levels)
      : network_(model), levels_(std::move(levels)) {}

  torch::nn::Module& module() { return *network_; }
  const SequenceModelOptions& options() const { return network_->options(); }
  const std::optional<RelativeLevels>& levels() const { return levels_; }
  // [scored, outputs]: of classes their logits.
  at::Tensor Answers(const SeriesForm& form, const SeriesBatch& batch);

 private:
  SequenceModel network_;
  std::optional<RelativeLevels> levels_;
};

}  // namespace heed::lab

#endif  // HEED_LAB_SERIES_NETWORK_H_
