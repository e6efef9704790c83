#include "bench/suites/bench.h"

#include <algorithm>
#include <atomic>
#include <limits>
#include <memory>
#include <utility>

#include <ATen/Parallel.h>
#include <fmt/core.h>

#include "bench/suites/contenders.h"
#include "bench/suites/measurement.h"
#include "heed/error.h"
#include "lab/report/printable.h"
#include "lab/report/progress.h"
#include "lab/training/interrupt.h"
#include "lab/training/side_by_side.h"
#include "reference/peaks.h"

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

const char* NameOf(BenchPass pass) {
  if (pass == BenchPass::kTrainingStep) return "training step";
  return pass == BenchPass::kForward ? "forward" : "forward+backward";
}

std::string NameOf(const CallCase& c) {
  const std::string options = OptionText(c), type = TypeNames()[static_cast<std::size_t>(c.type)];
  if (options.empty()) return c.type == BenchType::kFloat ? "plain" : type;
  return c.type == BenchType::kFloat ? options : type + " " + options;
}

// As many as a call's keys and values have bytes of; none where reading them is not the limit.
std::size_t FloatsToRead(const CallCase& c) {
  const Shape& shape = c.shape;
  const int64_t elements = shape.batch * shape.kv_heads * shape.kv_len * (shape.head_dim + shape.value_dim);
  return c.BoundByReading() ? static_cast<std::size_t>(elements * ElementBytes(c.type)) / sizeof(float) : 0;
}

// Reads so many numbers, on all threads.
class Reader {
 public:
  explicit Reader(std::size_t floats) : data_(floats, 1.0F) {}

  double Bytes() const { return static_cast<double>(data_.size() * sizeof(float)); }
  void Run() const {
    const auto count = static_cast<int64_t>(data_.size());
    const int64_t share = std::max<int64_t>(1, count / at::get_num_threads());
    at::parallel_for(0, count, share,
                     [&](int64_t begin, int64_t end) { sink_ += reference::ReadAll(data_.data() + begin, end - begin); });
  }

 private:
  std::vector<float> data_;
  mutable std::atomic<float> sink_ = 0.0F;  // the sums are used, so that the reads stay
};

void Measure(BenchContenders& contenders, const CallCase& call, const CallRounds& rounds, BenchRow& row) {
  const BenchPass pass = call.pass;
  row.torch_way = ChooseTorchWay(contenders, pass);
  row.torch_path = contenders.TorchPath(pass);
  const auto heed = [&] { contenders.Run(BenchSide::kHeed, pass); };
  const auto torch = [&] { contenders.Run(BenchSide::kTorch, pass); };
  const Reader reader(rounds.times_alone ? 0 : FloatsToRead(call));
  double peak = 0;
  std::vector<std::function<void()>> in_turn = {heed, torch};
  if (rounds.times_alone) {
    row.heed_mib = row.torch_mib = std::numeric_limits<double>::quiet_NaN();
  } else {
    row.heed_mib = PeakGrowth(heed);
    row.torch_mib = PeakGrowth(torch);
    const int bytes = call.type == BenchType::kDouble ? 8 : 4;
    in_turn.emplace_back([&peak, bytes] { peak = std::max(peak, reference::FmaPeak(bytes, 0.005)); });
    in_turn.emplace_back([&reader] { reader.Run(); });
  }
  const std::vector<Timing> timings = TimeInTurn(in_turn, rounds.rounds, rounds.seconds, 2);
  row.heed_ms = timings[0].minimum * 1e3;
  row.heed_median_ms = timings[0].median * 1e3;
  row.torch_ms = timings[1].minimum * 1e3;
  row.torch_median_ms = timings[1].median * 1e3;
  row.ratio = row.torch_ms / row.heed_ms;
  if (rounds.times_alone) return;
  row.peak_gflops = peak * 1e-9;
  const double operations = contenders.Operations(pass);
  row.percent_of_peak = 100.0 * operations / timings[0].minimum / (peak * row.threads);
  row.torch_percent_of_peak = 100.0 * operations / timings[1].minimum / (peak * row.threads);
  if (reader.Bytes() > 0) {
    row.percent_of_bandwidth = 100.0 * timings[3].minimum / timings[0].minimum;
    row.torch_percent_of_bandwidth = 100.0 * timings[3].minimum / timings[1].minimum;
  }
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

Fields FieldsOf(BenchOptions& options) {
  std::vector<std::string> suites = BenchSuites();
  suites.insert(suites.begin(), "all");
  Field threads{.name = "threads", .value = &options.threads, .low = 1, .high = 1024, .source = Field::Source::kCommon};
  return {Names("suite", &options.suite, suites, "Cases"),
          Whole("rounds", &options.rounds, 1, 10000, "Least number of interleaved rounds a case"), threads};
}

std::string CommandOf(const BenchOptions& options, const std::filesystem::path& folder) {
  BenchOptions own = options, defaults;
  return CommandLine("bench", "", "", FieldsOf(own), FieldsOf(defaults), folder);
}

std::string CommandOf(const BenchRow& row) { return "heed bench --case " + ShellWord(row.call); }

std::vector<BenchPass> PassesOf(const BenchCase& c) {
  if (c.call.pass != BenchPass::kForwardBackward) return {c.call.pass};
  return {BenchPass::kForward, BenchPass::kForwardBackward};
}

BenchRow MeasureCall(const CallCase& c, const CallRounds& rounds) {
  const ThreadCount count(c.threads);
  BenchRow row;
  row.suite = "case";
  row.option = NameOf(c);
  row.shape = ShapeText(c.shape);
  row.pass = NameOf(c.pass);
  row.threads = c.threads;
  row.length = c.shape.kv_len;
  row.head_dim = c.shape.head_dim;
  row.times_alone = rounds.times_alone;
  if (c.pass != BenchPass::kTrainingStep) row.call = TextOf(c);
  Measure(*MakeContenders(c), c, rounds, row);
  return row;
}

BenchRow MeasureCase(const BenchCase& c, BenchPass pass, const BenchOptions& options) {
  CallCase call = c.call;
  call.pass = pass;
  if (call.threads == 0) call.threads = options.threads;
  BenchRow row = MeasureCall(call, {options.rounds, options.seconds});
  row.suite = c.suite;
  row.option = c.option;
  if (call.type != BenchType::kFloat) row.option += ", " + TypeNames()[static_cast<std::size_t>(call.type)];
  call.shape.q_len = call.shape.kv_len;  // the option says where there is one query
  row.shape = ShapeText(call.shape);
  return row;
}

std::unique_ptr<BenchContenders> MakeContenders(const CallCase& c) {
  return c.pass == BenchPass::kTrainingStep ? MakeTrainingContenders(c) : MakeAttentionContenders(c);
}

std::string ChooseTorchWay(BenchContenders& contenders, BenchPass pass) {
  constexpr double kHopeless = 3;  // times the fastest; not run again
  constexpr double kLong = 0.05;   // seconds of a call that is as long when it finds memory that is not there yet
  const std::vector<std::string> ways = contenders.TorchWays();
  std::vector<double> seconds(ways.size(), std::numeric_limits<double>::infinity());
  for (const bool first : {true, false, false})
    for (std::size_t way = 0; ways.size() > 1 && way < ways.size(); ++way) {
      if (!first && seconds[way] > kHopeless * *std::ranges::min_element(seconds)) continue;
      contenders.SetTorchWay(way);
      const auto run = [&] { contenders.Run(BenchSide::kTorch, pass); };
      double now = SecondsOf(run);
      if (first && now < kLong) now = SecondsOf(run);
      seconds[way] = std::min(seconds[way], now);
    }
  const auto best = static_cast<std::size_t>(std::ranges::min_element(seconds) - seconds.begin());
  contenders.SetTorchWay(best);
  return ways[best];
}

std::vector<BenchRow> RunBench(const BenchOptions& options, const std::function<void(const BenchRow&)>& done) {
  const std::vector<BenchCase> cases = CasesOf(options.suite);
  int64_t measurements = 0;
  for (const BenchCase& c : cases) measurements += static_cast<int64_t>(PassesOf(c).size());
  Progress progress("bench", measurements, options.quiet);
  std::vector<BenchRow> rows;
  for (const BenchCase& c : cases)
    for (const BenchPass pass : PassesOf(c)) {
      if (Interrupted()) throw Interruption("interrupted after " + std::to_string(rows.size()) + " measurements");
      rows.push_back(MeasureCase(c, pass, options));
      done(rows.back());
      progress.Update(static_cast<int64_t>(rows.size()), c.suite);
    }
  return rows;
}

}  // namespace heed::lab
