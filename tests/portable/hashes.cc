// Prints the hash of every call of reference/hashed_calls.h and of the answers of whole kept models of every encoder, a line
// each. Two machines have the same bits where the lines are the same.
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
#include "tests/inference/kept_models.h"
#include "tests/scratch_folder.h"

namespace heed {
namespace {

void Print(const std::string& name, uint64_t hash) {
  std::printf("%016llx %s\n", static_cast<unsigned long long>(hash), name.c_str());
}

void PrintAll() {
  ThreadPool pool(2);
  for (const reference::HashedCall& call : reference::HashedCalls()) Print(call.name, call.hash(pool));
  const ScratchFolder scratch;
  const std::string folder = scratch.path().string();
  const KeptModelRows rows;
  for (const BitsEncoder& made : AllBitsEncoders()) {
    reference::BitsHash series;
    series.AddAll(rows.Answers(KeepSeriesModel(folder, made), 0, static_cast<int64_t>(rows.lengths.size()), pool));
    Print("kept series " + made.name, series.value());
    if (!made.options.causal) continue;
    reference::BitsHash text;
    text.AddAll(KeepCharacterModel(folder, made).Logits(KeptTokens(), pool));
    Print("kept text " + made.name, text.value());
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
