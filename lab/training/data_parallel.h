// One model that several ranks train, each on rows of its own of every batch, or on tokens of its own of rows that several
// share.
#ifndef HEED_LAB_TRAINING_DATA_PARALLEL_H_
#define HEED_LAB_TRAINING_DATA_PARALLEL_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include <ATen/core/Tensor.h>

#include "lab/data/batches.h"
#include "lab/training/optimizer.h"
#include "lab/training/options.h"
#include "lab/training/ranks.h"

namespace c10d {
class Reducer;
}

namespace heed::nn::distributed {
class SequencePart;
}

namespace heed::lab {

// Gradients are those of the mean loss of the whole batch, on every rank the same bits. They are added up in buckets of about
// 1 MiB, each of which is on its way while the backward pass computes the next: PyTorch's own engine of
// DistributedDataParallel, c10d::Reducer. Buckets are the same from the first step to the last, so that a resumed run adds in
// the same order.
class DataParallel {
 public:
  // `batch` rows in all. Throws InvalidArgument where ranks would have none.
  DataParallel(Ranks& ranks, const NamedTensors& parameters, int64_t batch, Objective objective = Objective::kCausal);
  ~DataParallel();
  DataParallel(const DataParallel&) = delete;
  DataParallel& operator=(const DataParallel&) = delete;

  Ranks& ranks() { return ranks_; }
  // This rank's share of the loss of a batch that every rank has; the shares add up to it. `loss` returns the mean over what is
  // to be predicted, which draws the dropout that it draws within the whole.
  at::Tensor Loss(const Batch& batch, const std::function<at::Tensor(const Batch&)>& loss) const;
  // Backward of what Loss gave, in step `step`, counted from 0. Returns the loss of the whole batch. Throws RanksError.
  double Backward(const at::Tensor& loss, int64_t step);
  // Whether any rank was interrupted before the last step's backward pass.
  bool interrupted() const { return interrupted_; }

 private:
  Ranks& ranks_;
  int64_t begin_, end_;  // this rank's rows
  Objective objective_;
  std::unique_ptr<c10d::Reducer> reducer_;
  bool interrupted_ = false;
};

// Rows begin .. end - 1 of a batch whose windows predict equally much.
Batch RowsOf(const Batch& batch, int64_t begin, int64_t end);

// Throws InvalidArgument that names the option, and why, for a model whose sequences so many ranks cannot share.
void RequireShared(const ModelOptions& model, int64_t sequence_ranks);

// Calls `compute` with this rank's tokens of every window of a batch and what is to be predicted from them, while heed's
// modules compute them as part of the whole: a zigzag where causality makes work uneven and the steps go into two parts a rank,
// else contiguous. All of them where ranks share no sequences. Every rank of a group calls it with the same batch. Throws
// RanksError; `what` as in Ranks.
void WithTokens(Ranks& ranks, const Batch& batch, Objective objective, const std::string& what,
                const std::function<void(const Batch&)>& compute);

// A rank's tokens of a batch, and what is to be predicted from them: there may be nothing.
Batch TokensOf(const Batch& batch, const nn::distributed::SequencePart& part);

}  // namespace heed::lab

#endif  // HEED_LAB_TRAINING_DATA_PARALLEL_H_
