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

void Transfer::Post(int peer, const at::Tensor& bytes, bool receive) {
  std::vector<at::Tensor> message{bytes};
  try {
    c10d::ProcessGroup& group = *exchange_->group_;
    (receive ? received_ : sent_)
        .push_back({peer, bytes, receive ? group.recv(message, peer, /*tag=*/0) : group.send(message, peer, /*tag=*/0)});
  } catch (const std::exception& error) {
    exchange_->Fail(peer, what_, error);
  }
}

void Transfer::Wait() {
  for (std::vector<Message>* messages : {&received_, &sent_}) {
    for (const Message& message : *messages) {
      try {
        message.work->wait();
      } catch (const std::exception& error) {
        exchange_->Fail(message.peer, what_, error);
      }
    }
    messages->clear();
  }
}

Exchange::Exchange(std::string function, c10::intrusive_ptr<c10d::ProcessGroup> group)
    : function_(std::move(function)), group_(std::move(group)) {
  if (!group_) throw InvalidArgument("group: expected a process group of LibTorch, got none");
}

std::vector<int> Exchange::Others() const {
  std::vector<int> others;
  for (int step = 1; step < ranks(); ++step) others.push_back((rank() + step) % ranks());
  return others;
}

Transfer Exchange::Start(const ByPeer& sends, const ByPeer& receives, const std::string& what, bool counted) const {
  Transfer transfer(*this, what);
  for (const auto& [peer, tensor] : receives) {  // first, so that what is sent finds its place
    for (const at::Tensor& message : MessagesOf(tensor)) transfer.Post(peer, message, /*receive=*/true);
  }
  for (const auto& [peer, tensor] : sends) {
    for (const at::Tensor& message : MessagesOf(tensor)) {
      transfer.Post(peer, message, /*receive=*/false);
      if (counted) sent += message.numel();
    }
  }
  return transfer;
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
  const at::Tensor own = share(flat, exchange.rank()), total = share(result, exchange.rank());
  const std::vector<int> others = exchange.Others();
  ByPeer leaving, arriving;
  for (const int peer : others) {
    leaving.emplace_back(peer, share(flat, peer));
    arriving.emplace_back(peer, at::empty_like(own));
  }
  exchange.Swap(leaving, arriving, what);
  std::ranges::sort(arriving, {}, &ByPeer::value_type::first);
  total.zero_();
  for (int rank = 0, next = 0; rank < exchange.ranks(); ++rank) {
    total.add_(rank == exchange.rank() ? own : arriving[static_cast<std::size_t>(next++)].second);
  }
  leaving.clear(), arriving.clear();
  for (const int peer : others) {
    leaving.emplace_back(peer, total);
    arriving.emplace_back(peer, share(result, peer));
  }
  exchange.Swap(leaving, arriving, what);
  return result.view(numbers.sizes());
}

int64_t BytesOfSum(int64_t count, int rank, int ranks) {
  if (ranks == 1) return 0;
  const int64_t own = ShareOf(count, rank, ranks).second;
  return static_cast<int64_t>(sizeof(double)) * (count - own + own * (ranks - 1));
}

}  // namespace heed::nn::distributed
