#include "distributed/exchange.h"

#include <algorithm>
#include <atomic>
#include <exception>

#include <ATen/ATen.h>
#include <c10/util/Exception.h>

#include "heed/error.h"
#include "heed/nn/distributed.h"
#include "heed/nn/process_group.h"

namespace heed::nn::distributed {
namespace {

constexpr int64_t kMostBytes = int64_t{1} << 30;  // of a message; longer ones go in several

std::atomic<int64_t> sent{0};

std::vector<at::Tensor> MessagesOf(const at::Tensor& tensor) {
  if (tensor.numel() == 0) return {};
  return tensor.detach().view(-1).view(at::kByte).split(kMostBytes);
}

// The numbers of a sum that a rank adds up.
std::pair<int64_t, int64_t> ShareOf(int64_t count, int rank, int ranks) {
  const int64_t start = count * rank / ranks;
  return {start, count * (rank + 1) / ranks - start};
}

}  // namespace

int64_t sent_bytes() { return sent; }

Exchange::Exchange(std::string function, c10::intrusive_ptr<c10d::ProcessGroup> group)
    : function_(std::move(function)), group_(std::move(group)) {
  if (!group_) throw InvalidArgument("group: expected a process group of LibTorch, got none");
}

Transfer Exchange::Start(const ByPeer& sends, const ByPeer& receives, const std::string& what, bool counted) const {
  Transfer transfer{what, {}};
  const auto post = [&](int peer, const at::Tensor& bytes, bool receive) {
    std::vector<at::Tensor> message{bytes};
    try {
      transfer.messages.push_back(
          {peer, bytes, receive ? group_->recv(message, peer, /*tag=*/0) : group_->send(message, peer, /*tag=*/0)});
    } catch (const std::exception& error) {
      Fail(peer, what, error);
    }
  };
  for (const auto& [peer, tensor] : receives) {  // first, so that what is sent finds its place
    for (const at::Tensor& message : MessagesOf(tensor)) post(peer, message, /*receive=*/true);
  }
  for (const auto& [peer, tensor] : sends) {
    for (const at::Tensor& message : MessagesOf(tensor)) {
      post(peer, message, /*receive=*/false);
      if (counted) sent += message.numel();
    }
  }
  return transfer;
}

void Exchange::Wait(const Transfer& transfer) const {
  for (const Transfer::Message& message : transfer.messages) {
    try {
      message.work->wait();
    } catch (const std::exception& error) {
      Fail(message.peer, transfer.what, error);
    }
  }
}

std::vector<at::Tensor> Exchange::Swap(const std::vector<at::Tensor>& leaving, std::vector<at::Tensor> rooms,
                                       const std::string& what, bool counted) const {
  ByPeer sends, receives;
  for (int step = 1; step < ranks(); ++step) {
    const int peer = (rank() + step) % ranks();
    sends.emplace_back(peer, leaving[peer]);
    receives.emplace_back(peer, rooms[peer]);
  }
  Wait(Start(sends, receives, what, counted));
  rooms[rank()] = leaving[rank()];
  return rooms;
}

void Exchange::Fail(int peer, const std::string& what, const std::exception& error) const {
  throw RankLost(
      c10::str(function_, ": rank ", rank(), " of ", ranks(), " waited for rank ", peer, ", ", what, ": ", ReasonOf(error)));
}

at::Tensor SumOverRanks(const Exchange& exchange, const at::Tensor& numbers, const std::string& what) {
  if (exchange.ranks() == 1 || numbers.numel() == 0) return numbers;
  const at::Tensor flat = numbers.view(-1), result = at::empty_like(flat);
  const auto share = [&](const at::Tensor& of, int rank) {
    const auto [start, count] = ShareOf(of.numel(), rank, exchange.ranks());
    return of.narrow(0, start, count);
  };
  std::vector<at::Tensor> shares, totals;
  for (int rank = 0; rank < exchange.ranks(); ++rank) {
    shares.push_back(share(flat, rank));
    totals.push_back(share(result, rank));
  }
  const at::Tensor total = totals[exchange.rank()].zero_();
  std::vector<at::Tensor> rooms(shares.size());
  for (at::Tensor& room : rooms) room = at::empty_like(total);
  for (const at::Tensor& theirs : exchange.Swap(shares, std::move(rooms), what)) total.add_(theirs);
  exchange.Swap(std::vector<at::Tensor>(totals.size(), total), totals, what);
  return result.view(numbers.sizes());
}

std::vector<at::Tensor> SumsOverRanks(const Exchange& exchange, const std::vector<at::Tensor>& tensors,
                                      const std::string& what) {
  std::vector<at::Tensor> flat;
  std::vector<int64_t> counts;
  for (const at::Tensor& tensor : tensors) {
    flat.push_back(tensor.to(at::kDouble).reshape(-1));
    counts.push_back(tensor.numel());
  }
  if (flat.empty()) return {};
  std::vector<at::Tensor> sums = SumOverRanks(exchange, at::cat(flat), what).split_with_sizes(counts);
  for (std::size_t t = 0; t < sums.size(); ++t) sums[t] = sums[t].view(tensors[t].sizes());
  return sums;
}

int64_t BytesOfSum(int64_t count, int rank, int ranks) {
  if (ranks == 1) return 0;
  const int64_t own = ShareOf(count, rank, ranks).second;
  return static_cast<int64_t>(sizeof(double)) * (count - own + own * (ranks - 1));
}

}  // namespace heed::nn::distributed
