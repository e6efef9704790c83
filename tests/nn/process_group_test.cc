// Groups of ranks that are threads, and what torchrun's environment must hold.
#include "heed/nn/process_group.h"

#include <chrono>
#include <cstdlib>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "heed/error.h"

namespace heed::nn {
namespace {

using std::chrono::milliseconds;
using Changes = std::map<std::string, std::string>;

// What torchrun would set, until the end of the test.
class TorchrunEnvironment {
 public:
  explicit TorchrunEnvironment(const Changes& changes) {
    Changes values = {{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "127.0.0.1"}, {"MASTER_PORT", "1"}};
    for (const auto& [name, value] : changes) values[name] = value;
    for (const auto& [name, value] : values) {
      names_.push_back(name);
      value.empty() ? unsetenv(name.c_str()) : setenv(name.c_str(), value.c_str(), 1);
    }
  }
  ~TorchrunEnvironment() {
    for (const std::string& name : names_) unsetenv(name.c_str());
  }
  TorchrunEnvironment(const TorchrunEnvironment&) = delete;
  TorchrunEnvironment& operator=(const TorchrunEnvironment&) = delete;

 private:
  std::vector<std::string> names_;
};

std::string Refusal(const Changes& changes) {
  const TorchrunEnvironment environment(changes);
  try {
    JoinProcessGroup(milliseconds(500));
  } catch (const InvalidArgument& error) {
    return error.what();
  }
  return "joined";
}

std::string Failure(const Changes& changes) {
  const TorchrunEnvironment environment(changes);
  try {
    JoinProcessGroup(milliseconds(1000));
  } catch (const Error& error) {
    return error.what();
  }
  return "joined";
}

TEST(ProcessGroupTest, RanksThatMeetInAStoreAddUp) {
  constexpr int kSize = 3;
  const auto store = c10::make_intrusive<c10d::HashStore>();
  std::vector<double> sums(kSize);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < kSize; ++rank) {
    threads.emplace_back([&, rank] {
      const auto group = MakeProcessGroup(store, rank, kSize, milliseconds(20000));
      std::vector<at::Tensor> numbers = {at::full({5}, rank + 1.0, at::kDouble)};
      group->allreduce(numbers)->wait();
      sums[rank] = numbers[0].sum().item<double>();
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(sums, std::vector<double>(kSize, 30.0));
}

TEST(ProcessGroupTest, ARankThatDoesNotJoinIsNamedWithinTheTimeOut) {
  const auto store = c10::make_intrusive<c10d::HashStore>();
  const auto start = std::chrono::steady_clock::now();
  try {
    MakeProcessGroup(store, 1, 3, milliseconds(300));
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "process group: rank 1 of 3 waited 300 ms for ranks 0, 2 to join");
  }
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5));
}

TEST(ProcessGroupTest, VariablesThatAreMissingOrMalformedAreNamed) {
  for (const char* name : {"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"}) {
    EXPECT_EQ(Refusal({{name, ""}}), std::string(name) +
                                         ": the environment variable that torchrun sets is missing; start with: torchrun "
                                         "--no-python --nproc-per-node N heed ...");
  }
  EXPECT_TRUE(
      Refusal({{"RANK", "2"}}).starts_with("RANK: expected the environment variable to be a number in 0..1, got '2'; "));
  EXPECT_TRUE(Refusal({{"WORLD_SIZE", "two"}}).starts_with("WORLD_SIZE: expected the environment variable to be a number in "));
  EXPECT_TRUE(Refusal({{"MASTER_PORT", "70000"}}).starts_with("MASTER_PORT: expected "));
}

TEST(ProcessGroupTest, AStoreThatIsNotThereIsNamedWithinTheTimeOut) {
  const std::string said = Failure({{"RANK", "1"}});
  EXPECT_TRUE(said.starts_with("process group: rank 1 of 2 waited for the store of MASTER_ADDR and MASTER_PORT, 127.0.0.1:1: "))
      << said;
}

TEST(ProcessGroupTest, APortThatAnotherHasIsNamedByTheRankThatOpensTheStore) {
  c10d::TCPStoreOptions options;
  options.port = 0;
  options.isServer = true, options.waitWorkers = false;
  const auto taken = c10::make_intrusive<c10d::TCPStore>("127.0.0.1", options);
  const std::string port = std::to_string(taken->getPort()), said = Failure({{"MASTER_PORT", port}});
  EXPECT_TRUE(said.starts_with(
      "process group: rank 0 of 2 could not open the store of MASTER_ADDR and MASTER_PORT, 127.0.0.1:" + port + ": "))
      << said;
}

TEST(ProcessGroupTest, ARankBeyondTheSizeIsRefused) {
  const auto store = c10::make_intrusive<c10d::HashStore>();
  EXPECT_THROW(MakeProcessGroup(store, 2, 2, milliseconds(100)), InvalidArgument);
  EXPECT_THROW(MakeProcessGroup(store, 0, 1, milliseconds(0)), InvalidArgument);
}

}  // namespace
}  // namespace heed::nn
