// Messages between the ranks of a group.
#ifndef HEED_NN_SRC_DISTRIBUTED_EXCHANGE_H_
#define HEED_NN_SRC_DISTRIBUTED_EXCHANGE_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

namespace heed::nn::distributed {

// A contiguous tensor for each of some ranks, or from each.
using ByPeer = std::vector<std::pair<int, at::Tensor>>;

// Messages under way.
struct Transfer {
  struct Message {
    int peer;
    at::Tensor bytes;  // which live until they are sent
    c10::intrusive_ptr<c10d::Work> work;
  };
  std::string what;  // for errors
  std::vector<Message> messages;
};

// One call's messages.
class Exchange {
 public:
  // function: what was called, for errors. Throws InvalidArgument without a group.
  Exchange(std::string function, c10::intrusive_ptr<c10d::ProcessGroup> group);

  const std::string& function() const { return function_; }
  int rank() const { return group_->getRank(); }
  int ranks() const { return group_->getSize(); }
  // Sends tensors and fills others; who sends and who receives agree on shapes, and on whether there is anything in them.
  // what: for errors.
  Transfer Start(const ByPeer& sends, const ByPeer& receives, const std::string& what, bool counted = true) const;
  // Throws Error that names the rank and what it was to send or take.
  void Wait(const Transfer& transfer) const;
  // What every rank has for this one, by rank. leaving: contiguous, what this one has for each; rooms: where to put theirs.
  std::vector<at::Tensor> Swap(const std::vector<at::Tensor>& leaving, std::vector<at::Tensor> rooms, const std::string& what,
                               bool counted = true) const;

 private:
  [[noreturn]] void Fail(int peer, const std::string& what, const std::exception& error) const;

  std::string function_;
  c10::intrusive_ptr<c10d::ProcessGroup> group_;
};

// The sum of contiguous float64 numbers of all ranks, the same bits on each: added in the order of ranks.
at::Tensor SumOverRanks(const Exchange& exchange, const at::Tensor& numbers, const std::string& what);

// The same of tensors of any type and shape, in float64.
std::vector<at::Tensor> SumsOverRanks(const Exchange& exchange, const std::vector<at::Tensor>& tensors,
                                      const std::string& what);

// What a rank sends for SumOverRanks of so many numbers.
int64_t BytesOfSum(int64_t count, int rank, int ranks);

}  // namespace heed::nn::distributed

#endif  // HEED_NN_SRC_DISTRIBUTED_EXCHANGE_H_
