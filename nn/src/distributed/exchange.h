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

class Exchange;

// Messages under way.
class Transfer {
 public:
  // Throws Error that names the rank and what it was to send or take.
  void Wait();

 private:
  friend class Exchange;
  struct Message {
    int peer;
    at::Tensor bytes;  // which live until they are sent
    c10::intrusive_ptr<c10d::Work> work;
  };
  Transfer(const Exchange& exchange, std::string what) : exchange_(&exchange), what_(std::move(what)) {}
  void Post(int peer, const at::Tensor& bytes, bool receive);

  const Exchange* exchange_;
  std::string what_;
  std::vector<Message> received_, sent_;
};

// One call's messages. Outlives its transfers.
class Exchange {
 public:
  // function: what was called, for errors. Throws InvalidArgument without a group.
  Exchange(std::string function, c10::intrusive_ptr<c10d::ProcessGroup> group);

  const std::string& function() const { return function_; }
  int rank() const { return group_->getRank(); }
  int ranks() const { return group_->getSize(); }
  // Every rank but this one, the next one first.
  std::vector<int> Others() const;

  // Sends tensors and fills others; who sends and who receives agree on shapes, and on whether there is anything in them.
  // what: for errors.
  Transfer Start(const ByPeer& sends, const ByPeer& receives, const std::string& what, bool counted = true) const;
  // Start and Wait.
  void Swap(const ByPeer& sends, const ByPeer& receives, const std::string& what, bool counted = true) const {
    Start(sends, receives, what, counted).Wait();
  }

 private:
  friend class Transfer;
  [[noreturn]] void Fail(int peer, const std::string& what, const std::exception& error) const;

  std::string function_;
  c10::intrusive_ptr<c10d::ProcessGroup> group_;
};

// The sum of contiguous float64 numbers of all ranks, the same bits on each: added in the order of ranks.
at::Tensor SumOverRanks(const Exchange& exchange, const at::Tensor& numbers, const std::string& what);

// What a rank sends for SumOverRanks of so many numbers.
int64_t BytesOfSum(int64_t count, int rank, int ranks);

}  // namespace heed::nn::distributed

#endif  // HEED_NN_SRC_DISTRIBUTED_EXCHANGE_H_
