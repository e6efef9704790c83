#include "lab/training/ranks.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <exception>
#include <new>
#include <optional>
#include <set>
#include <utility>

#include <ATen/ATen.h>
#include <fmt/core.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include "heed/nn/distributed.h"
#include "heed/nn/process_group.h"
#include "lab/report/json.h"
#include "lab/training/interrupt.h"

namespace heed::lab {
namespace {

constexpr double kLongestTimeOut = 1e9;  // seconds; that of c10d counts milliseconds in 64 bits

void Broadcast(c10d::ProcessGroup& group, const at::Tensor& tensor, int root = 0) {
  c10d::BroadcastOptions options;
  options.rootRank = root;
  std::vector<at::Tensor> tensors = {tensor};
  group.broadcast(tensors, options)->wait();
}

// The text of the rank `root`, on every rank.
std::string TextFrom(c10d::ProcessGroup& group, const std::string& own, int root) {
  const at::Tensor size = at::full({1}, std::ssize(own), at::kLong);
  Broadcast(group, size, root);
  std::string text = group.getRank() == root ? own : std::string(static_cast<std::size_t>(size.item<int64_t>()), '\0');
  if (!text.empty()) Broadcast(group, at::from_blob(text.data(), {std::ssize(text)}, at::kByte), root);
  return text;
}

// An error of heed as text and back: a line for its kind, then the message.
std::string ErrorText(const Error& error) {
  const std::string kind = dynamic_cast<const InvalidArgument*>(&error) != nullptr ? "argument"
                           : dynamic_cast<const FileError*>(&error) != nullptr     ? "file"
                           : dynamic_cast<const Divergence*>(&error) != nullptr    ? "divergence"
                                                                                   : "error";
  return kind + "\n" + error.what();
}

[[noreturn]] void Raise(const std::string& text) {
  const std::size_t end = text.find('\n');
  const std::string kind = text.substr(0, end), message = text.substr(end + 1);
  if (kind == "argument") throw InvalidArgument(message);
  if (kind == "file") throw FileError(message);
  if (kind == "divergence") throw Divergence(message);
  throw Error(message);
}

// "ranks 0, 2, 3 have 0.1; rank 1 has 0.2", nothing where all have the same.
std::string Difference(const std::vector<std::string>& values) {
  std::vector<std::pair<std::string, std::vector<std::size_t>>> ranks_of;
  for (std::size_t rank = 0; rank < values.size(); ++rank) {
    auto found = std::ranges::find(ranks_of, values[rank], &std::pair<std::string, std::vector<std::size_t>>::first);
    if (found == ranks_of.end()) found = ranks_of.insert(ranks_of.end(), {values[rank], {}});
    found->second.push_back(rank);
  }
  if (ranks_of.size() < 2) return {};
  std::string text;
  for (const auto& [value, ranks] : ranks_of) {
    const bool one = ranks.size() == 1;
    text += fmt::format("{}{} {} {} {}", text.empty() ? "" : "; ", one ? "rank" : "ranks", fmt::join(ranks, ", "),
                        one ? "has" : "have", value);
  }
  return text;
}

void RequireSame(const std::vector<nlohmann::json>& settings) {
  std::set<std::string> names;
  for (const nlohmann::json& of_rank : settings) {
    for (const auto& [name, value] : of_rank.items()) names.insert(name);
  }
  std::string differences;
  for (const std::string& name : names) {
    std::vector<std::string> values;
    values.reserve(settings.size());
    for (const nlohmann::json& of_rank : settings) values.push_back(of_rank.value(name, "nothing"));
    const std::string difference = Difference(values);
    if (!difference.empty()) differences += fmt::format("{}{}: {}", differences.empty() ? "" : "; ", name, difference);
  }
  if (!differences.empty()) throw InvalidArgument("the ranks disagree: " + differences);
}

}  // namespace

std::unique_ptr<Ranks> Ranks::Join(double time_out) {
  if (!(time_out > 0.0 && time_out <= kLongestTimeOut)) {
    throw InvalidArgument(
        fmt::format("time_out: expected more than 0 and at most {:g} seconds, got {:g}", kLongestTimeOut, time_out));
  }
  const auto limit = std::chrono::milliseconds(std::max<int64_t>(1, std::llround(1e3 * time_out)));
  return std::make_unique<Ranks>(RankGroup{nn::JoinProcessGroup(limit), limit});
}

void RequireGroups(int64_t sequence_ranks, int64_t size) {
  if (sequence_ranks < 1 || sequence_ranks > size || size % sequence_ranks != 0) {
    throw InvalidArgument(
        fmt::format("sequence_ranks: expected a number that divides the {} processes, got {}", size, sequence_ranks));
  }
}

void Ranks::ShareSequences(int64_t sequence_ranks) {
  RequireGroups(sequence_ranks, size());
  if (sequence_ranks == 1) return;
  const int ranks = static_cast<int>(sequence_ranks), group = rank() / ranks;
  Await("the ranks that share its sequences", [&] {
    // A group of its own also where all ranks share sequences: gradients are under way meanwhile.
    const auto store =
        c10::make_intrusive<c10d::PrefixStore>(fmt::format("heed/sequence/{}", group), group_->group->getStore());
    group_->sequence = nn::MakeProcessGroup(store, rank() % ranks, ranks, group_->time_out);
  });
  sequence_ranks_ = ranks;
}

Ranks::Ranks(RankGroup group) : group_(std::make_unique<RankGroup>(std::move(group))) {}

// Gloo's destructor waits for the messages that are under way. After a rank was lost they end by the time-out alone, and this
// rank would keep its connections open for as long, so that others wait for it in turn. The groups are therefore left to the
// end of the process, which closes the connections at once.
Ranks::~Ranks() {
  if (lost_) [[maybe_unused]]
    RankGroup* const left = group_.release();
}

int Ranks::rank() const { return group_->group->getRank(); }
int Ranks::size() const { return group_->group->getSize(); }

void Ranks::Await(const std::string& what, const std::function<void()>& wait) {
  try {
    wait();
  } catch (const nn::distributed::RankLost& error) {
    lost_ = true;
    const int first = row_group() * sequence_ranks_;
    throw RanksError(fmt::format("rank {} of {} waited for {}: among ranks {} to {}, which share sequences, {}", rank(), size(),
                                 what, first, first + sequence_ranks_ - 1, nn::ReasonOf(error)));
  } catch (const Error&) {
    throw;
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& error) {
    // Other errors of LibTorch, of memory, are of this rank alone.
    const bool own =
        dynamic_cast<const c10::Error*>(&error) != nullptr && dynamic_cast<const c10::DistError*>(&error) == nullptr;
    if (own) throw;
    lost_ = true;
    throw RanksError(fmt::format("rank {} of {} waited for {}: {}", rank(), size(), what, nn::ReasonOf(error)));
  }
}

std::vector<double> Ranks::Sum(const std::vector<double>& numbers, const std::string& what) {
  std::vector<at::Tensor> tensors = {at::tensor(numbers, at::kDouble)};
  Await(what, [&] { group_->group->allreduce(tensors)->wait(); });
  const double* first = tensors[0].const_data_ptr<double>();
  return {first, first + numbers.size()};
}

bool Ranks::AnyOfSequence(bool own, const std::string& what) {
  if (sequence_ranks_ == 1) return own;
  std::vector<at::Tensor> tensors = {at::full({1}, own ? 1 : 0, at::kLong)};
  Await(what, [&] { group_->sequence->allreduce(tensors)->wait(); });
  return tensors[0].item<int64_t>() > 0;
}

std::vector<std::string> Ranks::Gather(const std::string& own, const std::string& what) {
  std::vector<std::string> texts;
  Await(what, [&] {
    for (int rank = 0; rank < size(); ++rank) texts.push_back(TextFrom(*group_->group, own, rank));
  });
  return texts;
}

std::string Ranks::FromFirst(const std::string& text, const std::string& what) {
  std::string received;
  Await(what, [&] { received = TextFrom(*group_->group, text, 0); });
  return received;
}

void TakeFromFirst(Ranks& ranks, const at::Tensor& tensor, const std::string& what) {
  if (tensor.numel() == 0) return;
  const at::NoGradGuard no_grad;
  const at::Tensor dense = tensor.contiguous();
  ranks.Await(what, [&] { Broadcast(*ranks.group().group, dense); });
  if (!dense.is_same(tensor)) tensor.copy_(dense);
}

void Ranks::OnFirst(const std::function<void()>& act, const std::string& what) {
  std::exception_ptr own;
  std::string failure;
  if (first()) {
    try {
      act();
    } catch (const Error& error) {
      own = std::current_exception();
      failure = ErrorText(error);
    }
  }
  failure = FromFirst(failure, what);
  if (own) std::rethrow_exception(own);
  if (!failure.empty()) Raise(failure);
}

void Ranks::Agree(const std::function<std::map<std::string, std::string>()>& prepare) {
  std::exception_ptr own;
  nlohmann::ordered_json mine;
  try {
    mine["settings"] = prepare();
  } catch (const Error& error) {
    own = std::current_exception();
    mine["refused"] = error.what();
  }
  std::vector<nlohmann::json> settings;
  std::string refusals;
  const std::vector<std::string> texts = Gather(JsonText(mine), "what the other ranks were started with");
  for (std::size_t rank = 0; rank < texts.size(); ++rank) {
    const nlohmann::json of_rank = nlohmann::json::parse(texts[rank]);
    if (of_rank.contains("refused")) {
      refusals += fmt::format("{}rank {}: {}", refusals.empty() ? "" : "; ", rank, of_rank.at("refused").get<std::string>());
    } else {
      settings.push_back(of_rank.at("settings"));
    }
  }
  if (own) std::rethrow_exception(own);
  if (!refusals.empty()) throw Error("refused on other ranks: " + refusals);
  RequireSame(settings);
}

void OnFirst(Ranks* ranks, const std::function<void()>& act, const std::string& what) {
  ranks != nullptr ? ranks->OnFirst(act, what) : act();
}

}  // namespace heed::lab
