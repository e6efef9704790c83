// One model that several ranks train, each on some tokens of every row.
#ifndef HEED_LAB_TRAINING_SEQUENCE_PARALLEL_H_
#define HEED_LAB_TRAINING_SEQUENCE_PARALLEL_H_

#include <cstdint>
#include <functional>
#include <string>

#include "lab/data/batches.h"
#include "lab/training/options.h"
#include "lab/training/ranks.h"

namespace heed::nn::distributed {
class SequencePart;
}

namespace heed::lab {

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

#endif  // HEED_LAB_TRAINING_SEQUENCE_PARALLEL_H_
