#include <algorithm>

#include "bench/suites/bench.h"
#include "heed/error.h"

namespace heed::lab {
namespace {

// One query on caches of many lengths; 700 is no multiple of a tile. Two threads have something to share from 4096 on.
std::vector<BenchCase> DecodeCases() {
  struct Heads {
    int64_t query, key, width;
  };
  std::vector<BenchCase> cases;
  for (const Heads& heads : {Heads{8, 8, 64}, {12, 12, 64}, {32, 8, 128}, {8, 1, 128}})
    for (const BenchType type : {BenchType::kFloat, BenchType::kBFloat16})
      for (const int64_t n : {512, 700, 4096, 8192, 32768})
        for (int threads = 1; threads <= (n < 4096 ? 1 : 2); ++threads)
          cases.push_back({"decode", BenchOption::kDecode, 1, heads.query, heads.key, n, heads.width, threads, type});
  return cases;
}

std::vector<BenchCase> MakeCases() {
  using enum BenchOption;
  std::vector<BenchCase> cases = {
      {"full", kPlain, 1, 8, 8, 2048, 64},
      {"full", kPlain, 1, 8, 8, 2048, 128},
      {"full", kPlain, 1, 8, 8, 2048, 32},
      {"causal", kCausal, 1, 8, 8, 2048, 64},
      {"causal", kCausal, 2, 8, 8, 1024, 64},
      {"causal", kCausal, 4, 8, 8, 512, 64},
      {"short", kPlain, 16, 12, 12, 128, 64},
      {"short", kPlain, 8, 12, 12, 197, 64},
      {"short", kPlain, 64, 4, 4, 32, 32},
      {"dropout", kDropout, 2, 8, 8, 1024, 64},
      {"dropout", kCausalDropout, 1, 8, 8, 2048, 64},
      {"bias", kRelativeBias, 2, 8, 8, 1024, 64},
      {"lengths", kKeyLengths, 8, 8, 8, 1024, 64},
      {"lengths", kBothLengths, 8, 8, 8, 1024, 64},
      {"grouped", kPlain, 1, 16, 2, 1024, 64, 2},
      {"threads", kPlain, 1, 1, 1, 8192, 64, 1},
      {"threads", kPlain, 1, 1, 1, 8192, 64, 2},
      {"types", kPlain, 1, 8, 8, 2048, 64, 0, BenchType::kFloat},
      {"types", kPlain, 1, 8, 8, 2048, 64, 0, BenchType::kBFloat16},
      {"types", kPlain, 1, 8, 8, 2048, 64, 0, BenchType::kHalf},
      {"types", kPlain, 1, 8, 8, 2048, 64, 0, BenchType::kDouble},
      {"train", kTrainingDropout, 4, 8, 8, 1024, 32, 2},
      {"train", kTrainingDropout, 8, 4, 4, 512, 64, 2},
      {"train", kTraining, 12, 4, 4, 64, 32, 2},
  };
  const std::vector<BenchCase> decode = DecodeCases();
  cases.insert(std::ranges::find(cases, "threads", &BenchCase::suite), decode.begin(), decode.end());
  return cases;
}

const std::vector<BenchCase>& AllCases() {
  static const std::vector<BenchCase> cases = MakeCases();
  return cases;
}

}  // namespace

std::vector<std::string> BenchSuites() {
  std::vector<std::string> names;
  for (const BenchCase& c : AllCases())
    if (names.empty() || names.back() != c.suite) names.push_back(c.suite);
  return names;
}

std::vector<BenchCase> CasesOf(const std::string& suite) {
  std::vector<BenchCase> cases;
  for (const BenchCase& c : AllCases())
    if (suite == "all" || suite == c.suite) cases.push_back(c);
  if (!cases.empty()) return cases;
  std::string known = "all";
  for (const std::string& name : BenchSuites()) known += ", " + name;
  throw InvalidArgument("--suite: expected one of " + known + ", got '" + suite + "'");
}

}  // namespace heed::lab
