// Prints the hash of every call of reference/hashed_calls.h and of every encoder without LibTorch, a line each. Two machines
// have the same bits where the lines are the same.
//
//   portable_hashes [TARGET [EVERY]]
//   portable_hashes --targets       prints the targets of this processor that are to have the same bits
//
// TARGET: one of SupportedTargets(); by default the best. EVERY: computes and prints the first line and each EVERYth after it.
#include <cstdint>
#include <cstdio>
#include <exception>
#include <functional>
#include <string>

#include "heed/attention.h"
#include "heed/executor.h"
#include "reference/bits_hash.h"
#include "reference/hashed_calls.h"
#include "tests/inference/encoder_bits.h"

namespace heed {
namespace {

void Print(int64_t every) {
  int64_t line = 0;
  const auto print = [&](const std::string& name, const std::function<uint64_t()>& hash) {
    if (line++ % every == 0) std::printf("%016llx %s\n", static_cast<unsigned long long>(hash()), name.c_str());
  };
  ThreadPool pool(2);
  for (const reference::HashedCall& call : reference::HashedCalls()) print(call.name, [&] { return call.hash(pool); });
  for (const BitsEncoder& made : AllBitsEncoders())
    print("encoder " + made.name, [&] {
      const BitsBatch batch({1, 3, 4, 5, 17, 64, 70, 200}, made.options.width);
      reference::BitsHash hash;
      hash.AddAll(batch.Encoded(*made.encoder, pool));
      return hash.value();
    });
}

}  // namespace
}  // namespace heed

int main(int argc, char** argv) {
  try {
    const std::string word = argc > 1 ? argv[1] : "";
    if (word == "--targets") {
      for (const std::string& target : heed::SupportedTargets())
        if (heed::reference::HasPortableBits(target)) std::puts(target.c_str());
      return 0;
    }
    heed::UseTarget(word);
    heed::Print(argc > 2 ? std::stoll(argv[2]) : 1);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
