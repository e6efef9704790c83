// Attention over many processes: each rank of a process group holds part of a sequence. Use any LibTorch group that sends CPU
// tensors, such as Gloo's, from <torch/csrc/distributed/c10d/ProcessGroup.hpp>.
//
//   namespace distributed = heed::nn::distributed;
//   at::Tensor query = distributed::zigzag_part(whole, 2, group->getRank(), group->getSize());
//   AttentionOutput result = distributed::attention(query, key, value, group, AttentionOptions().causal(true),
//                                                   {.layout = distributed::Layout::kZigzag});
//
// heed.distributed in Python is the same code.
#ifndef HEED_NN_DISTRIBUTED_H_
#define HEED_NN_DISTRIBUTED_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>
#include <c10/util/intrusive_ptr.h>

#include "heed/error.h"
#include "heed/nn/attention.h"

namespace c10d {
class ProcessGroup;
}

namespace heed::nn::distributed {

// Another rank died, or missed the time-out of the group. what() names the rank and the operation that waited for it. The group
// cannot be used any more.
class RankLost : public Error {
 public:
  using Error::Error;
};

// How ranks share the work. Liu et al. 2023, "Ring Attention with Blockwise Transformers for Near-Infinite Context"; Jacobs et
// al. 2023, "DeepSpeed Ulysses".
enum class Method : uint8_t {
  kAuto,     // the method of plan()
  kRing,     // sends keys and values to the ranks that need them, those of the next step during computation
  kAllToAll  // sends tokens to the ranks that compute their heads; query heads are a multiple of the ranks
};

// The tokens of a sequence that each rank holds.
enum class Layout : uint8_t {
  kContiguous,  // rank r holds the r-th part; parts may differ in length and be empty
  kZigzag       // of 2R equal parts rank r holds parts r and 2R-1-r, which balances causal work
};

struct Choice {
  Method method = Method::kAuto;
  Layout layout = Layout::kContiguous;
};

// The plan of attention() for the same arguments. Vectors have a number for each rank of the group.
struct Plan {
  Method method;                                // kRing or kAllToAll
  std::string reason;                           // the requested method, or the comparison of both
  std::vector<int64_t> forward_bytes;           // that a rank sends to others in the forward pass
  std::vector<int64_t> backward_bytes;          // likewise in the backward pass, of the gradients that the arguments require
  std::optional<std::vector<int64_t>> pairs{};  // of a query and a key that a rank computes for a batch row and a head; absent
                                                // with listed positions, packed sequences and masks
};

// heed::nn::attention of a sequence whose parts lie on the ranks of a group. Call it on every rank, in the same order, and run
// the backward pass on every rank or on none.
//
// query [B, Hq, Nq_r, D], key [B, Hkv, Nk_r, D], value [B, Hkv, Nk_r, Dv]: this rank's tokens. Give every rank the options of
// the whole sequence: lengths, positions, offsets of packed sequences, masks and biases have their extents of one process, and
// indices of programs and dropout count the tokens of the whole. Without a seed, all ranks use rank 0's draw. Results, and
// gradients of query, key and value, are those of this rank's tokens; gradients of tables, biases and schemes are those of the
// whole sequence, on every rank.
//
// Results are those of one process within rounding. It does not return weights. Throws InvalidArgument as heed::nn::attention
// does, and, on every rank before computing anything, for ranks with different arguments or versions; Error where another rank
// refused its arguments, RankLost where it died or missed the time-out of the group.
AttentionOutput attention(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                          const c10::intrusive_ptr<c10d::ProcessGroup>& group, const AttentionOptions& options = {},
                          Choice choice = {});

// The plan of attention() for the same arguments, with its reason. Call it on every rank; it computes no attention. kAuto takes
// the only possible method; or all-to-all if under the ring one rank would compute more than 1.25 times as many pairs as the
// mean; else the method whose busiest rank sends fewer bytes, and the ring if both send as many. Throws what attention()
// throws.
Plan plan(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
          const c10::intrusive_ptr<c10d::ProcessGroup>& group, const AttentionOptions& options = {}, Choice choice = {});

// Turns contiguous parts on the ranks into zigzag parts: x is this rank's part along dimension dim, [.., N_r, ..]; the N_r may
// differ, and their sum N is a multiple of 2R. Returns [.., N/R, ..]. Call it on every rank. Differentiable. Throws
// InvalidArgument for an N that is no multiple of 2R and for a dimension that x does not have, and as attention() where ranks
// disagree or are gone.
at::Tensor zigzag(const at::Tensor& x, int64_t dim, const c10::intrusive_ptr<c10d::ProcessGroup>& group);

// The inverse of zigzag: of R equal contiguous parts rank r gets the r-th.
at::Tensor unzigzag(const at::Tensor& x, int64_t dim, const c10::intrusive_ptr<c10d::ProcessGroup>& group);

// A rank's zigzag part of a whole sequence x [.., N, ..] that every rank holds: parts r and 2R-1-r of 2R equal ones. Sends
// nothing. Differentiable. Throws InvalidArgument for an N that is no multiple of 2R and a rank outside 0..R-1.
at::Tensor zigzag_part(const at::Tensor& x, int64_t dim, int64_t rank, int64_t ranks);

// Bytes that the functions above have sent to other ranks since this process began, without comparisons of arguments.
int64_t sent_bytes();

}  // namespace heed::nn::distributed

#endif  // HEED_NN_DISTRIBUTED_H_
