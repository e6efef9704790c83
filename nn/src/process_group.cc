#include "heed/nn/process_group.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

// ProcessGroupGloo.hpp is empty without USE_C10D_GLOO, which a LibTorch that was built without Gloo leaves undefined.
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "heed/error.h"
#include "refuse.h"

namespace heed::nn {
namespace {

using Clock = std::chrono::steady_clock;
using Milliseconds = std::chrono::milliseconds;
using StorePointer = c10::intrusive_ptr<c10d::Store>;

constexpr const char* kHowToStart = "; start with: torchrun --no-python --nproc-per-node N heed ...";

std::string Variable(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr || *value == '\0') {
    Refuse(name, ": the environment variable that torchrun sets is missing", kHowToStart);
  }
  return value;
}

int Number(const char* name, int low, int high) {
  const std::string text = Variable(name);
  int number = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || rest != text.data() + text.size() || number < low || number > high) {
    Refuse(name, ": expected the environment variable to be a number in ", low, "..", high, ", got '", text, "'", kHowToStart);
  }
  return number;
}

bool Is(const char* name, std::string_view expected) {
  const char* value = std::getenv(name);
  return value != nullptr && value == expected;
}

std::string RankOf(int rank, int size) { return "rank " + std::to_string(rank) + " of " + std::to_string(size); }

std::string JoinedKey(int rank) { return "heed/joined/" + std::to_string(rank); }

// "ranks 2, 3", those that have not written their key.
std::string Missing(c10d::Store& store, int size) {
  std::string ranks;
  int count = 0;
  for (int rank = 0; rank < size; ++rank) {
    if (store.check({JoinedKey(rank)})) continue;
    ranks += (count++ > 0 ? ", " : "") + std::to_string(rank);
  }
  return (count == 1 ? "rank " : "ranks ") + ranks;
}

// Gloo would tell of the first key that it misses, in words of its own.
void MeetIn(c10d::Store& store, int rank, int size, Milliseconds timeout) {
  store.set(JoinedKey(rank), std::vector<uint8_t>{1});
  const auto end = Clock::now() + timeout;
  for (int other = 0; other < size; ++other) {
    try {
      // A time of 0 would mean no limit.
      const auto left = std::chrono::duration_cast<Milliseconds>(end - Clock::now());
      store.wait({JoinedKey(other)}, std::max(left, Milliseconds(1)));
    } catch (const c10::Error& error) {
      if (store.check({JoinedKey(other)})) continue;
      throw Error("process group: " + RankOf(rank, size) + " waited " + std::to_string(timeout.count()) + " ms for " +
                  Missing(store, size) + " to join");
    }
  }
}

void RequireGloo() {
#ifndef USE_C10D_GLOO
  Refuse(
      "process group: the LibTorch that heed was built with has no Gloo, which torch.distributed needs on CPUs; build heed "
      "with a PyTorch whose torch.distributed.is_gloo_available() is True");
#endif
}

StorePointer OpenStore(int rank, int size, Milliseconds timeout) {
  const std::string host = Variable("MASTER_ADDR");
  const bool agents = Is("TORCHELASTIC_USE_AGENT_STORE", "True");
  c10d::TCPStoreOptions options;
  options.port = static_cast<uint16_t>(Number("MASTER_PORT", 1, 65535));
  options.isServer = !agents && rank == 0;
  options.waitWorkers = false;
  options.timeout = timeout;
  try {
    const auto store = c10::make_intrusive<c10d::TCPStore>(host, options);
    // Workers that the agent starts again do not read what earlier ones wrote.
    const char* attempt = std::getenv("TORCHELASTIC_RESTART_COUNT");
    return c10::make_intrusive<c10d::PrefixStore>("heed/attempt_" + std::string(attempt != nullptr ? attempt : "0"), store);
  } catch (const c10::Error& error) {
    throw Error("process group: " + RankOf(rank, size) + (options.isServer ? " could not open" : " waited for") +
                " the store of MASTER_ADDR and MASTER_PORT, " + host + ":" + std::to_string(options.port) + ": " +
                error.what_without_backtrace());
  }
}

}  // namespace

c10::intrusive_ptr<c10d::ProcessGroup> MakeProcessGroup(const StorePointer& store, int rank, int size, Milliseconds timeout) {
  RequireGloo();
  if (size < 1 || rank < 0 || rank >= size) {
    Refuse("process group: expected a size of at least 1 and a rank below it, got ", size, " and ", rank);
  }
  if (timeout < Milliseconds(1)) {
    Refuse("process group: expected a time-out of at least 1 ms, got ", timeout.count());
  }
  try {
    MeetIn(*store, rank, size, timeout);
    auto group = c10::make_intrusive<c10d::ProcessGroup>(store, rank, size);
    const auto prefixed = c10::make_intrusive<c10d::PrefixStore>("heed/gloo", store);
#ifdef USE_C10D_GLOO
    const auto backend = c10::make_intrusive<c10d::ProcessGroupGloo>(prefixed, rank, size,
                                                                     c10d::ProcessGroupGloo::Options::create_default(timeout));
    group->setBackend(c10::DeviceType::CPU, c10d::ProcessGroup::BackendType::GLOO, backend);
#endif
    group->setDefaultBackend(c10d::ProcessGroup::BackendType::GLOO);
    return group;
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    throw Error("process group: " + RankOf(rank, size) + " waited for the other ranks to join: " + ReasonOf(error));
  }
}

c10::intrusive_ptr<c10d::ProcessGroup> JoinProcessGroup(Milliseconds timeout) {
  RequireGloo();
  const int size = Number("WORLD_SIZE", 1, 1 << 20), rank = Number("RANK", 0, size - 1);
  return MakeProcessGroup(OpenStore(rank, size, timeout), rank, size, timeout);
}

std::string ReasonOf(const std::exception& error) {
  const auto* of_torch = dynamic_cast<const c10::Error*>(&error);
  std::string text = of_torch != nullptr ? of_torch->what_without_backtrace() : error.what();
  if (text.starts_with('[')) {
    const std::size_t end = text.find("] ");
    if (end != std::string::npos) text.erase(0, end + 2);
  }
  text = text.substr(0, text.find('\n'));
  return text.substr(0, text.find(". This is typically"));
}

}  // namespace heed::nn
