// Attention over many processes: each rank of a process group holds part of a sequence. The group is any of LibTorch's that
// sends CPU tensors, as Gloo does; include <torch/csrc/distributed/c10d/ProcessGroup.hpp> to have one.
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

// Another rank died, or was later than the time-out of the group. what() says which, and what was waited for. The group is of
// no use any more.
class RankLost : public Error {
 public:
  using Error::Error;
};

// How ranks share the work. Liu et al. 2023, "Ring Attention with Blockwise Transformers for Near-Infinite Context"; Jacobs et
// al. 2023, "DeepSpeed Ulysses".
enum class Method : uint8_t {
  kAuto,     // what plan() says
  kRing,     // keys and values go to the ranks that need them, each step's while the last one's are computed
  kAllToAll  // tokens go to where their heads are computed; the number of query heads is a multiple of the ranks
};

// Which tokens of a sequence the ranks hold.
enum class Layout : uint8_t {
  kContiguous,  // rank r holds the r-th part; parts may differ in length and be empty
  kZigzag       // of 2R equal parts rank r holds parts r and 2R-1-r, which balances causal work
};

struct Choice {
  Method method = Method::kAuto;
  Layout layout = Layout::kContiguous;
};

// What attention() does with the same arguments. Numbers are per rank of the group.
struct Plan {
  Method method;                                // kRing or kAllToAll
  std::string reason;                           // what was asked for, or how the two compare
  std::vector<int64_t> forward_bytes;           // that a rank sends to others in the forward pass
  std::vector<int64_t> backward_bytes;          // likewise in the backward pass, of the gradients that the arguments require
  std::optional<std::vector<int64_t>> pairs{};  // of a query and a key that a rank computes for a batch row and a head; absent
                                                // for listed positions, packed sequences and masks, which are not counted
};

// heed::nn::attention of a sequence whose parts lie on the ranks of a group. Every rank calls it, in the same order, and runs
// the backward pass too, or none does.
//
// query [B, Hq, Nq_r, D], key [B, Hkv, Nk_r, D], value [B, Hkv, Nk_r, Dv]: this rank's tokens. Options are those of the whole
// sequence, and the same on every rank: lengths, positions, offsets of packed sequences, masks and biases have the extents that
// they have in one process, indices of programs and of dropout count its tokens. Without a seed, rank 0's draw serves all. What
// is returned, and gradients of query, key and value, are of this rank's tokens; gradients of tables, biases and schemes are
// those of the whole sequence, on every rank.
//
// Results are those of one process within rounding. Weights are not returned. Throws InvalidArgument as heed::nn::attention
// does, and, on every rank before anything is computed, where ranks were called with different arguments or versions; Error
// where another rank refused its arguments, RankLost where it died, or was later than the time-out of the group.
AttentionOutput attention(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                          const c10::intrusive_ptr<c10d::ProcessGroup>& group, const AttentionOptions& options = {},
                          Choice choice = {});

// What attention() does with the same arguments, and why. Every rank calls it; nothing is computed. kAuto takes the method that
// can be where only one can; all-to-all where under the ring one rank would compute more than 1.25 times as many pairs as the
// mean; else the method whose busiest rank sends fewer bytes, and the ring where both send as many. Throws what attention()
// throws.
Plan plan(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
          const c10::intrusive_ptr<c10d::ProcessGroup>& group, const AttentionOptions& options = {}, Choice choice = {});

// The zigzag part of a sequence whose contiguous parts lie on the ranks: x is this rank's along dimension dim, [.., N_r, ..];
// the N_r may differ, and their sum N is a multiple of 2R. Returns [.., N/R, ..]. Every rank calls it. Differentiable. Throws
// InvalidArgument for tokens that do not go into 2R equal parts and a dimension that x has not, and as attention() where ranks
// disagree or are gone.
at::Tensor zigzag(const at::Tensor& x, int64_t dim, const c10::intrusive_ptr<c10d::ProcessGroup>& group);

// What zigzag made of a sequence, in contiguous parts again: of R equal parts rank r gets the r-th.
at::Tensor unzigzag(const at::Tensor& x, int64_t dim, const c10::intrusive_ptr<c10d::ProcessGroup>& group);

// A rank's zigzag part of a whole sequence x [.., N, ..] that every rank has: parts r and 2R-1-r of 2R equal ones. Sends
// nothing. Differentiable. Throws InvalidArgument for an N that is no multiple of 2R and a rank outside of 0..R-1.
at::Tensor zigzag_part(const at::Tensor& x, int64_t dim, int64_t rank, int64_t ranks);

// How many bytes the functions above have sent to other ranks since this process began, comparisons of arguments left out.
int64_t sent_bytes();

}  // namespace heed::nn::distributed

#endif  // HEED_NN_DISTRIBUTED_H_
