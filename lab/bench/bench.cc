#include "lab/bench/bench.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <iomanip>
#include <memory>
#include <sstream>

#include <ATen/Parallel.h>

#include "lab/bench/attention_contenders.h"
#include "lab/bench/contenders.h"
#include "lab/bench/measurement.h"
#include "lab/bench/training_contenders.h"
#include "lab/report/progress.h"
#include "lab/training/interrupt.h"
#include "reference/fma_peak.h"
#include "reference/read_peak.h"

namespace heed::lab {
namespace {

const char* NameOf(BenchOption option) {
  switch (option) {
    case BenchOption::kPlain:
      return "plain";
    case BenchOption::kCausal:
      return "causal";
    case BenchOption::kDropout:
      return "dropout 0.1";
    case BenchOption::kCausalDropout:
      return "causal, dropout 0.1";
    case BenchOption::kRelativeBias:
      return "trainable relative bias";
    case BenchOption::kKeyLengths:
      return "key lengths 1/8 to 1";
    case BenchOption::kBothLengths:
      return "key and query lengths 1/8 to 1";
    case BenchOption::kDecode:
      return "one query";
    case BenchOption::kTraining:
      return "model of 4 layers";
    case BenchOption::kTrainingDropout:
      return "model of 4 layers, dropout 0.1";
  }
  return "";
}

const char* NameOf(BenchPass pass) {
  if (pass == BenchPass::kTrainingStep) return "training step";
  return pass == BenchPass::kForward ? "forward" : "forward+backward";
}

std::string NameOf(const BenchCase& c) {
  std::string name = NameOf(c.option);
  if (c.type == BenchType::kFloat) return name;
  return name + ", " + (c.type == BenchType::kBFloat16 ? "bfloat16" : c.type == BenchType::kHalf ? "float16" : "float64");
}

std::string ShapeText(const BenchCase& c) {
  std::ostringstream text;
  text << "B" << c.batch << " H" << c.q_heads;
  if (c.kv_heads != c.q_heads) text << ":" << c.kv_heads;
  text << " n" << c.length << " d" << c.head_dim;
  return text.str();
}

// Reads as many bytes as a decoding step does, on all threads.
class Reader {
 public:
  explicit Reader(const BenchCase& c)
      : data_(c.option == BenchOption::kDecode ? 2 * c.batch * c.kv_heads * c.length * c.head_dim : 0, 1.0F) {}

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

// Rows that differ in the length alone share a series.

}  // namespace

Fields FieldsOf(BenchOptions& options) {
  std::vector<std::string> suites = BenchSuites();
  suites.insert(suites.begin(), "all");
  Field threads{.name = "threads", .value = &options.threads, .low = 1, .high = 1024, .source = Field::Source::kCommon};
  return {Names("suite", &options.suite, suites, "Cases"),
          Whole("rounds", &options.rounds, 1, 10000, "Interleaved rounds a case, at least"), threads};
}

std::string CommandOf(const BenchOptions& options, const std::filesystem::path& folder) {
  BenchOptions own = options, defaults;
  return CommandLine("bench", "", "", FieldsOf(own), FieldsOf(defaults), folder);
}

std::vector<BenchPass> PassesOf(const BenchCase& c) {
  if (c.option == BenchOption::kTraining || c.option == BenchOption::kTrainingDropout) return {BenchPass::kTrainingStep};
  if (c.option == BenchOption::kDecode) return {BenchPass::kForward};
  return {BenchPass::kForward, BenchPass::kForwardBackward};
}

BenchRow MeasureCase(const BenchCase& c, BenchPass pass, const BenchOptions& options) {
  const int threads = c.threads > 0 ? c.threads : options.threads;
  at::set_num_threads(threads);
  const std::unique_ptr<Contenders> contenders = MakeContenders(c);
  BenchRow row;
  row.suite = c.suite;
  row.option = NameOf(c);
  row.shape = ShapeText(c);
  row.pass = NameOf(pass);
  row.threads = threads;
  row.length = c.length;
  row.head_dim = c.head_dim;
  row.torch_path = contenders->TorchPath(pass);
  const auto heed = [&] { contenders->Run(BenchSide::kHeed, pass); };
  const auto torch = [&] { contenders->Run(BenchSide::kTorch, pass); };
  row.heed_mib = PeakGrowth(heed);
  row.torch_mib = PeakGrowth(torch);
  const Reader reader(c);
  double peak = 0;
  const std::vector<Timing> timings =
      TimeInTurn({heed, torch, [&] { peak = std::max(peak, reference::FmaPeak(c.type == BenchType::kDouble ? 8 : 4, 0.005)); },
                  [&] { reader.Run(); }},
                 options.rounds, options.seconds);
  row.heed_ms = timings[0].minimum * 1e3;
  row.heed_median_ms = timings[0].median * 1e3;
  row.torch_ms = timings[1].minimum * 1e3;
  row.torch_median_ms = timings[1].median * 1e3;
  row.ratio = row.torch_ms / row.heed_ms;
  row.peak_gflops = peak * 1e-9;
  const double operations = contenders->Operations(pass);
  row.percent_of_peak = 100.0 * operations / timings[0].minimum / (peak * threads);
  row.torch_percent_of_peak = 100.0 * operations / timings[1].minimum / (peak * threads);
  if (reader.Bytes() > 0) {
    row.percent_of_bandwidth = 100.0 * timings[3].minimum / timings[0].minimum;
    row.torch_percent_of_bandwidth = 100.0 * timings[3].minimum / timings[1].minimum;
  }
  return row;
}

std::unique_ptr<Contenders> MakeContenders(const BenchCase& c) {
  if (c.option == BenchOption::kTraining || c.option == BenchOption::kTrainingDropout)
    return std::make_unique<TrainingContenders>(c);
  return std::make_unique<AttentionContenders>(c);
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
  at::set_num_threads(options.threads);
  return rows;
}

}  // namespace heed::lab
