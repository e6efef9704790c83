// The processes of a distributed training: what they tell each other besides gradients.
#ifndef HEED_LAB_TRAINING_RANKS_H_
#define HEED_LAB_TRAINING_RANKS_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include "heed/error.h"

namespace heed::lab {

struct RankGroup {
  c10::intrusive_ptr<c10d::ProcessGroup> group;
  std::chrono::milliseconds time_out;                    // of this group and of those that are made within it
  c10::intrusive_ptr<c10d::ProcessGroup> sequence = {};  // those that share this rank's sequences, where ranks do
};

// Another rank died, hangs or is too late. what() names what was waited for. The ranks are of no use any more.
class RanksError : public Error {
 public:
  using Error::Error;
};

// Every rank calls the same functions in the same order, from one thread; `what` completes the words "rank 0 of 4 waited for".
// All throw RanksError.
class Ranks {
 public:
  // Those that torchrun's environment describes (heed/nn/process_group.h). What takes a rank more than `time_out` seconds is
  // an error on those that wait for it. Throws InvalidArgument that names the variable or time_out, and Error that names the
  // ranks which did not join.
  static std::unique_ptr<Ranks> Join(double time_out);
  explicit Ranks(RankGroup group);
  ~Ranks();
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;

  int rank() const;
  int size() const;
  bool first() const { return rank() == 0; }

  // From now on the ranks g S .. g S + S-1, S = sequence_ranks, share the tokens of each row of a batch, and these groups share
  // its rows. Every rank calls it, with the same number, once. Throws InvalidArgument that names sequence_ranks where the ranks
  // are no multiple of it, Error as Join, and RanksError.
  void ShareSequences(int64_t sequence_ranks);
  // The ranks that share the tokens of a row, 1 unless they do; the groups of such ranks, and the number of this rank's.
  int sequence_ranks() const { return sequence_ranks_; }
  int row_groups() const { return size() / sequence_ranks_; }
  int row_group() const { return rank() / sequence_ranks_; }

  RankGroup& group() { return *group_; }

  // Element by element over all ranks, the same bits on each.
  std::vector<double> Sum(const std::vector<double>& numbers, const std::string& what);
  // Whether it holds on any of the ranks that share this one's sequences.
  bool AnyOfSequence(bool own, const std::string& what);
  // What each rank gave, by rank.
  std::vector<std::string> Gather(const std::string& own, const std::string& what);
  // Rank 0's, on every rank. For tensors see TakeFromFirst.
  std::string FromFirst(const std::string& text, const std::string& what);

  // Calls act on rank 0. Where it throws an error of heed, every rank throws the same one.
  void OnFirst(const std::function<void()>& act, const std::string& what);

  // Calls `prepare` on every rank and compares what it returns, by name. Throws InvalidArgument that names each difference, and
  // where it threw an error of heed that one, on the other ranks Error with the same words.
  void Agree(const std::function<std::map<std::string, std::string>()>& prepare);

  // Calls wait; whatever of communication fails in it becomes a RanksError. Errors of heed pass.
  void Await(const std::string& what, const std::function<void()>& wait);

 private:
  std::unique_ptr<RankGroup> group_;
  int sequence_ranks_ = 1;
  bool lost_ = false;  // whether a rank did not come
};

// Throws InvalidArgument that names sequence_ranks unless groups of so many ranks, at least 1, make `size` ranks.
void RequireGroups(int64_t sequence_ranks, int64_t size);

// The same without ranks, where there are none.
void OnFirst(Ranks* ranks, const std::function<void()>& act, const std::string& what);

// The numbers of every rank's tensor become those of rank 0's; see Ranks.
void TakeFromFirst(Ranks& ranks, const at::Tensor& tensor, const std::string& what);

}  // namespace heed::lab

#endif  // HEED_LAB_TRAINING_RANKS_H_
