// Prints the hash of every call of reference/hashed_calls.h and of every encoder without LibTorch, a line each. Two machines
// have the same bits where the lines are the same.
//
//   portable_hashes [TARGET]
//   portable_hashes --targets       prints the targets of this processor that are to have the same bits
//
// TARGET: one of SupportedTargets(); by default the best.
#include <cstdint>
#include <cstdio>
#include <exception>
#include <string>

#include "heed/attention.h"
#include "heed/executor.h"
#include "reference/bits_hash.h"
#include "reference/hashed_calls.h"
#include "tests/inference/encoder_bits.h"

namespace heed {
namespace {

void Print(const std::string& name, uint64_t hash) {
  std::printf("%016llx %s\n", static_cast<unsigned long long>(hash), name.c_str());
}

void PrintAll() {
  ThreadPool pool(2);
  for (const reference::HashedCall& call : reference::HashedCalls()) Print(call.name, call.hash(pool));
  for (const BitsEncoder& made : AllBitsEncoders()) {
    const BitsBatch batch({1, 3, 4, 5, 17, 64, 70, 200}, made.options.width);
    reference::BitsHash hash;
    hash.AddAll(batch.Encoded(*made.encoder, pool));
    Print("encoder " + made.name, hash.value());
  }
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
    heed::PrintAll();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
