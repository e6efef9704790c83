// Ranks that are threads of one process.
#ifndef HEED_TESTS_NN_THREAD_GROUP_H_
#define HEED_TESTS_NN_THREAD_GROUP_H_

#include <chrono>
#include <cstddef>
#include <exception>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include "heed/nn/process_group.h"

namespace heed::nn::distributed {

using Group = c10::intrusive_ptr<c10d::ProcessGroup>;

// Calls f as each rank of a group of threads; what each of them threw, empty where nothing.
inline std::vector<std::string> Together(int ranks, const std::function<void(const Group&, int)>& f,
                                         std::chrono::milliseconds timeout = std::chrono::seconds(20)) {
  const auto store = c10::make_intrusive<c10d::HashStore>();
  std::vector<std::string> thrown(static_cast<std::size_t>(ranks));
  std::vector<std::thread> threads;
  threads.reserve(static_cast<std::size_t>(ranks));
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        f(MakeProcessGroup(store, rank, ranks, timeout), rank);
      } catch (const std::exception& error) {
        thrown[static_cast<std::size_t>(rank)] = error.what();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return thrown;
}

inline void ExpectNothingThrown(const std::vector<std::string>& thrown) {
  for (std::size_t rank = 0; rank < thrown.size(); ++rank) EXPECT_EQ(thrown[rank], "") << "rank " << rank;
}

}  // namespace heed::nn::distributed

#endif  // HEED_TESTS_NN_THREAD_GROUP_H_
