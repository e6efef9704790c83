// Searches for calls on which the engine and the double-precision reference differ: random ones, one after the other, for so
// many seconds. A call that fails is made as simple as it can be and printed as a test.
//
//   fuzz_calls [--seconds N] [--seed S] [--calls N]
//
// The call with seed S + x is the same in every run. Exit status: 1 if any call failed.
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <exception>
#include <iostream>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

#include "heed/attention.h"
#include "heed/executor.h"
#include "reference/cases.h"
#include "reference/fuzz_cases.h"
#include "reference/trial.h"

namespace heed {
namespace {

using reference::Case;

// The seed of the call at hand, told where the process dies of it.
std::atomic<uint64_t> seed_at_hand;

extern "C" void TellSeed(int signal) {
  const std::string text =
      "fuzz: signal " + std::to_string(signal) + " in the call of seed " + std::to_string(seed_at_hand) + "\n";
  static_cast<void>(!write(STDOUT_FILENO, text.data(), text.size()));
  _exit(1);
}

constexpr const char* kTypes[] = {"float", "double", "BFloat16", "Float16"};

// What is wrong with a call in one type on one SIMD target; empty if nothing is.
template <class T>
std::string WrongIn(const Case& c, uint64_t seed) {
  SerialExecutor serial;
  try {
    const reference::TrialErrors errors = reference::RunTrial<T>(c, seed, serial);
    return errors.Largest() < reference::kErrorLimit<T> ? std::string() : errors.Text();
  } catch (const std::exception& error) {
    return error.what();
  }
}

std::string Wrong(const Case& c, uint64_t seed, uint64_t type) {
  if (type == 0) return WrongIn<float>(c, seed);
  if (type == 1) return WrongIn<double>(c, seed);
  if (type == 2) return WrongIn<BFloat16>(c, seed);
  return WrongIn<Float16>(c, seed);
}

// Mostly the best target, now and then another one.
std::string TargetOf(uint64_t seed) {
  const std::vector<std::string> targets = SupportedTargets();
  return seed % 16 < 13 ? targets.front() : targets[seed / 16 % targets.size()];
}

void Report(const Case& failing, uint64_t seed, uint64_t type, const std::string& target) {
  const Case least = reference::Minimised(failing, [&](const Case& c) { return !Wrong(c, seed, type).empty(); });
  const Shape& s = least.shape;
  std::cout << "fuzz: seed " << seed << ", " << kTypes[type] << ", " << target << ": " << Wrong(least, seed, type) << "\n"
            << "  shape " << s.batch << " x " << s.q_heads << " heads (" << s.kv_heads << " of keys) x " << s.q_len
            << " queries x " << s.kv_len << " keys, widths " << s.head_dim << " and " << s.value_dim << "\n"
            << "TEST(FuzzedCalls, Seed" << seed << ") {\n"
            << "  ExpectAccurate<" << kTypes[type] << ">(*reference::NamedCase(\"" << least.name << "\"), " << seed << ", \""
            << kTypes[type] << "\", {\"" << target << "\"});\n}\n"
            << std::flush;
}

int Run(int64_t seconds, uint64_t first, uint64_t calls) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(seconds);
  uint64_t done = 0, failed = 0;
  auto told = std::chrono::steady_clock::now();
  for (; done < calls && std::chrono::steady_clock::now() < end; ++done) {
    if (std::chrono::steady_clock::now() - told > std::chrono::seconds(20)) {
      told = std::chrono::steady_clock::now();
      std::cerr << "fuzz: " << done << " calls so far\n";
    }
    const uint64_t seed = first + done, type = seed / 2 % 4;
    seed_at_hand = seed;
    const Case c = reference::FuzzCase(seed);
    const std::string target = TargetOf(seed);
    UseTarget(target);
    if (Wrong(c, seed, type).empty()) continue;
    ++failed;
    Report(c, seed, type, target);
  }
  std::cout << "fuzz: " << done << " calls of the engine from seed " << first << " on, " << failed << " failed\n";
  return failed == 0 ? 0 : 1;
}

}  // namespace
}  // namespace heed

int main(int argc, char** argv) {
  int64_t seconds = 30;
  uint64_t seed = static_cast<uint64_t>(std::chrono::system_clock::now().time_since_epoch().count()) / 1000 % 1000000000 * 1000;
  uint64_t calls = std::numeric_limits<uint64_t>::max();
  const std::vector<std::string> words(argv + 1, argv + argc);
  try {
    if (words.size() % 2 != 0) throw std::invalid_argument(words.back());
    for (std::size_t x = 0; x < words.size(); x += 2) {
      if (words[x] == "--seconds") {
        seconds = std::stoll(words[x + 1]);
      } else if (words[x] == "--seed") {
        seed = std::stoull(words[x + 1]);
      } else if (words[x] == "--calls") {
        calls = std::stoull(words[x + 1]);
      } else {
        throw std::invalid_argument(words[x]);
      }
    }
  } catch (const std::exception&) {
    std::cerr << "usage: fuzz_calls [--seconds N] [--seed S] [--calls N]\n";
    return 2;
  }
  for (const int signal : {SIGFPE, SIGSEGV, SIGBUS, SIGILL, SIGABRT}) std::signal(signal, heed::TellSeed);
  return heed::Run(seconds, seed, calls);
}
