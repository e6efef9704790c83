#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "heed/attention.h"
#include "lab/report/json.h"
#include "lab/report/progress.h"
#include "lab/training/interrupt.h"
#include "reference/bits_hash.h"
#include "reference/cases.h"
#include "reference/hashed_calls.h"
#include "reference/random_cases.h"
#include "reference/trial.h"

namespace heed::cli {
namespace {

struct Verdict {
  std::string target, type;
  int64_t cases = 0, failed = 0;
  double worst = 0;  // units of reference/trial.h; NaN when a kernel returned NaN
  std::string worst_case;
  double limit = 0;  // where a case fails
};

template <class T>
Verdict CheckTarget(const std::string& target, const char* type, const std::vector<reference::Case>& cases, uint64_t seed,
                    lab::Progress& progress, int64_t& done) {
  Verdict verdict{target, type, 0, 0, 0, {}, reference::kErrorLimit<T>};
  for (const reference::Case& c : cases) {
    if (lab::Interrupted()) throw lab::Interruption("interrupted");
    const double error = reference::RunTrial<T>(c, seed, ThreadPool::Default()).Largest();
    ++verdict.cases;
    if (!(error < verdict.limit)) ++verdict.failed;
    if (verdict.worst_case.empty() || std::isnan(error) || error > verdict.worst)
      verdict.worst = error, verdict.worst_case = c.name;
    progress.Update(++done, target + " " + type);
  }
  return verdict;
}

// The table and random cases, or the one case with a name.
std::vector<reference::Case> Choose(int64_t random_cases, const std::string& name, uint64_t seed) {
  if (!name.empty()) return {*reference::NamedCase(name)};
  std::vector<reference::Case> cases = reference::Cases();
  for (int64_t i = 0; i < random_cases; ++i)
    for (reference::Case& c : reference::RandomCases(seed + static_cast<uint64_t>(i))) cases.push_back(std::move(c));
  return cases;
}

std::vector<Verdict> CheckAll(const std::vector<reference::Case>& cases, const Context& context) {
  const std::vector<std::string> targets = SupportedTargets();
  lab::WatchForInterrupt();
  lab::Progress progress("check", static_cast<int64_t>(4 * cases.size() * targets.size()), context.quiet);
  int64_t done = 0;
  std::vector<Verdict> verdicts;
  for (const std::string& target : targets) {
    UseTarget(target);
    verdicts.push_back(CheckTarget<float>(target, "float32", cases, context.seed, progress, done));
    verdicts.push_back(CheckTarget<double>(target, "float64", cases, context.seed, progress, done));
    verdicts.push_back(CheckTarget<BFloat16>(target, "bfloat16", cases, context.seed, progress, done));
    verdicts.push_back(CheckTarget<Float16>(target, "float16", cases, context.seed, progress, done));
  }
  UseTarget("");
  return verdicts;
}

void Print(const std::vector<Verdict>& verdicts, bool json) {
  if (json) {
    auto rows = nlohmann::ordered_json::array();
    for (const Verdict& v : verdicts)
      rows.push_back({{"target", v.target},
                      {"type", v.type},
                      {"cases", v.cases},
                      {"failed", v.failed},
                      {"worst_eps", v.worst},
                      {"worst_case", v.worst_case},
                      {"limit_eps", v.limit}});
    fmt::print("{}\n", lab::JsonText(rows));
    return;
  }
  fmt::print("target    type      cases  failed  worst (eps)  case\n");
  for (const Verdict& v : verdicts)
    fmt::print("{:10}{:10}{:5}{:8}{:13.1f}  {}\n", v.target, v.type, v.cases, v.failed, v.worst, v.worst_case);
  fmt::print(
      "A case fails at {:.1f} eps: outputs against sum p|v| of their row, gradients against the largest sum of |terms| "
      "in their array. Of\n16-bit types it fails at {:.1f}: eps of each element itself, plus what a float may be off by.\n",
      reference::kErrorLimit<float>, reference::kErrorLimit<Float16>);
}

// The hash of all calls of reference/hashed_calls.h on one target.
std::string BitsOf(const std::string& target, lab::Progress& progress, int64_t& done) {
  UseTarget(target);
  reference::BitsHash all;
  for (const reference::HashedCall& call : reference::HashedCalls()) {
    if (lab::Interrupted()) throw lab::Interruption("interrupted");
    all.Add(call.hash(ThreadPool::Default()));
    progress.Update(++done, target);
  }
  return fmt::format("{:016x}", all.value());
}

// One line where all targets agree, else one for each.
int PrintBits(const Context& context) {
  std::vector<std::string> targets = SupportedTargets();
  std::erase_if(targets, [](const std::string& target) { return !reference::HasPortableBits(target); });
  if (targets.empty()) throw Error("--hash: this processor has no fused multiply-adds, without which bits are its own");
  const auto calls = static_cast<int64_t>(reference::HashedCalls().size());
  lab::WatchForInterrupt();
  lab::Progress progress("check", calls * static_cast<int64_t>(targets.size()), context.quiet);
  int64_t done = 0;
  std::vector<std::pair<std::string, std::string>> bits;
  for (const std::string& target : targets) bits.emplace_back(target, BitsOf(target, progress, done));
  UseTarget("");
  const bool agree = std::all_of(bits.begin(), bits.end(), [&](const auto& of) { return of.second == bits[0].second; });
  if (context.json) {
    nlohmann::ordered_json report;
    report["version"] = HEED_VERSION, report["calls"] = calls, report["agree"] = agree;
    for (const auto& [target, hash] : bits) report["targets"][target] = hash;
    fmt::print("{}\n", lab::JsonText(report));
  } else if (agree) {
    fmt::print("heed " HEED_VERSION ", {} calls: {}\n", calls, bits[0].second);
  } else {
    for (const auto& [target, hash] : bits) fmt::print("heed " HEED_VERSION ", {} calls on {}: {}\n", calls, target, hash);
  }
  return agree ? 0 : 1;
}

struct CheckArguments {
  explicit CheckArguments(CLI::App& command) {
    CLI::Option* const cases = command.add_option("--cases", random_cases, "Random cases beside the fixed table")
                                   ->check(CLI::Range(0, 1000000))
                                   ->capture_default_str();
    const auto known = [](const std::string& text) {
      if (reference::NamedCase(text)) return std::string();
      return "no case is called \"" + text + "\"; expected a row of the table, \"random N\" or \"pair OPTION + OPTION N\"";
    };
    CLI::Option* const one = command.add_option("--case", name, "Run one case, by the name in a failure")->check(known);
    command
        .add_flag("--hash", hash,
                  "Print a hash of the results of 584 calls; machines with the same version of heed and fused "
                  "multiply-adds print the same")
        ->excludes(cases)
        ->excludes(one);
    command.footer("Example:\n  heed check --cases 500\n  heed check --case \"pair window + dropout 3\" --seed 3");
  }

  int64_t random_cases = 100;
  std::string name;
  bool hash = false;
};

int RunCheck(const CheckArguments& arguments, const Context& context) {
  if (arguments.hash) return PrintBits(context);
  const std::vector<Verdict> verdicts = CheckAll(Choose(arguments.random_cases, arguments.name, context.seed), context);
  Print(verdicts, context.json);
  return std::any_of(verdicts.begin(), verdicts.end(), [](const Verdict& v) { return v.failed > 0; }) ? 1 : 0;
}

const Command kCheck(110, "check", "Compare the kernels with the double-precision reference, on every SIMD target of this CPU",
                     &RunCheck);

}  // namespace
}  // namespace heed::cli
