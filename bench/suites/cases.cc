#include <string>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include "bench/suites/bench.h"
#include "heed/error.h"

namespace heed::lab {
namespace {

BenchCase Case(const char* suite, const char* option, const std::string& call) {
  BenchCase c{suite, option, ParseCase(call, suite)};
  if (call.find("threads=") == std::string::npos) c.call.threads = 0;
  return c;
}

// One query on caches of many lengths; 700 is no multiple of a tile. Two threads have something to share from 4096 on.
void AddDecoding(std::vector<BenchCase>& cases) {
  for (const auto& [heads, width] : {std::pair{"8", 64}, {"12", 64}, {"32:8", 128}, {"8:1", 128}})
    for (const char* type : {"float32", "bfloat16"})
      for (const int n : {512, 700, 4096, 8192, 32768})
        for (int threads = 1; threads <= (n < 4096 ? 1 : 2); ++threads)
          cases.push_back(Case("decode", "one query",
                               fmt::format("B1 H{} n1:{} d{} {} threads={} pass=forward", heads, n, width, type, threads)));
}

std::vector<BenchCase> MakeCases() {
  std::vector<BenchCase> cases = {
      Case("full", "plain", "B1 H8 n2048 d64"),
      Case("full", "plain", "B1 H8 n2048 d128"),
      Case("full", "plain", "B1 H8 n2048 d32"),
      Case("causal", "causal", "B1 H8 n2048 d64 causal"),
      Case("causal", "causal", "B2 H8 n1024 d64 causal"),
      Case("causal", "causal", "B4 H8 n512 d64 causal"),
      Case("short", "plain", "B16 H12 n128 d64"),
      Case("short", "plain", "B8 H12 n197 d64"),
      Case("short", "plain", "B64 H4 n32 d32"),
      Case("dropout", "dropout 0.1", "B2 H8 n1024 d64 dropout=0.1"),
      Case("dropout", "causal, dropout 0.1", "B1 H8 n2048 d64 causal dropout=0.1"),
      Case("bias", "trainable relative bias", "B2 H8 n1024 d64 bias=relative"),
      Case("lengths", "key lengths 1/8 to 1", "B8 H8 n1024 d64 key-lengths"),
      Case("lengths", "key and query lengths 1/8 to 1", "B8 H8 n1024 d64 key-lengths query-lengths"),
      Case("grouped", "plain", "B1 H16:2 n1024 d64 threads=2"),
  };
  AddDecoding(cases);
  for (const int threads : {1, 2})
    cases.push_back(Case("threads", "plain", fmt::format("B1 H1 n8192 d64 threads={}", threads)));
  for (const std::string& type : TypeNames()) cases.push_back(Case("types", "plain", "B1 H8 n2048 d64 " + type));
  for (const auto& [option, call] : {std::pair{"model of 4 layers, dropout 0.1", "B4 H8 n1024 d32 dropout=0.1 threads=2"},
                                     {"model of 4 layers, dropout 0.1", "B8 H4 n512 d64 dropout=0.1 threads=2"},
                                     {"model of 4 layers", "B12 H4 n64 d32 threads=2"}})
    cases.emplace_back(Case("train", option, call)).call.pass = BenchPass::kTrainingStep;
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
