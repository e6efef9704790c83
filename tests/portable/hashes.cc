// Prints the hash of every call of reference/hashed_calls.h and of the answers of whole kept models of every encoder, a line
// each. Two machines have the same bits where the lines are the same.
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
#include "tests/inference/kept_models.h"
#include "tests/scratch_folder.h"

namespace heed {
namespace {

void Print(int64_t every) {
  int64_t line = 0;
  const auto print = [&](const std::string& name, const std::function<uint64_t()>& hash) {
    if (line++ % every == 0) std::printf("%016llx %s\n", static_cast<unsigned long long>(hash()), name.c_str());
  };
  ThreadPool pool(2);
  for (const reference::HashedCall& call : reference::HashedCalls()) print(call.name, [&] { return call.hash(pool); });
  const ScratchFolder scratch;
  const std::string folder = scratch.path().string();
  const KeptModelRows rows;
  const auto hash_of = [](const auto& numbers) {
    reference::BitsHash hash;
    hash.AddAll(numbers);
    return hash.value();
  };
  for (const BitsEncoder& made : AllBitsEncoders()) {
    print("kept series " + made.name, [&] {
      return hash_of(rows.Answers(KeepSeriesModel(folder, made), 0, static_cast<int64_t>(rows.lengths.size()), pool));
    });
    if (made.options.causal)
      print("kept text " + made.name, [&] { return hash_of(KeepCharacterModel(folder, made).Logits(KeptTokens(), pool)); });
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
    heed::Print(argc > 2 ? std::stoll(argv[2]) : 1);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
