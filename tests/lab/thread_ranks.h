// Ranks that are threads of one process.
#ifndef HEED_TESTS_LAB_THREAD_RANKS_H_
#define HEED_TESTS_LAB_THREAD_RANKS_H_

#include <chrono>
#include <cstddef>
#include <functional>
#include <thread>
#include <vector>

#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include "heed/nn/process_group.h"
#include "lab/training/ranks.h"

namespace heed::lab {

// Calls act on every rank, with the process group that the ranks talk through.
inline void OnThreads(int size, const std::function<void(Ranks& ranks)>& act,
                      std::chrono::milliseconds time_out = std::chrono::seconds(20)) {
  const auto store = c10::make_intrusive<c10d::HashStore>();
  std::vector<std::thread> threads;
  threads.reserve(static_cast<std::size_t>(size));
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      Ranks ranks(RankGroup{nn::MakeProcessGroup(store, rank, size, time_out), time_out});
      act(ranks);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace heed::lab

#endif  // HEED_TESTS_LAB_THREAD_RANKS_H_
