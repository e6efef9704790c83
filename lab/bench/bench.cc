#include "lab/bench/bench.h"

#include <cmath>
#include <sstream>

#include <ATen/Parallel.h>

#include "lab/bench/contender.h"
#include "lab/bench/measurement.h"
#include "lab/report/progress.h"
#include "lab/training/interrupt.h"
#include "reference/fma_peak.h"

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
  }
  return "";
}

std::string ShapeText(const BenchCase& c) {
  std::ostringstream text;
  text << "B" << c.batch << " H" << c.q_heads;
  if (c.kv_heads != c.q_heads) text << ":" << c.kv_heads;
  text << " n" << c.length << " d" << c.head_dim;
  return text.str();
}

BenchRow Measure(const BenchCase& c, const BenchOptions& options, bool backward) {
  const int threads = c.threads > 0 ? c.threads : options.threads;
  at::set_num_threads(threads);
  Contenders contenders(c);
  BenchRow row;
  row.suite = c.suite;
  row.option = NameOf(c.option);
  row.shape = ShapeText(c);
  row.pass = backward ? "forward+backward" : "forward";
  row.threads = threads;
  row.length = c.length;
  row.torch_path = contenders.TorchPath();
  row.heed_mib = PeakGrowth([&] { contenders.RunHeed(backward); });
  row.torch_mib = PeakGrowth([&] { contenders.RunTorch(backward); });
  double peak = 0;
  const std::vector<Timing> timings = TimeInTurn({[&] { contenders.RunHeed(backward); }, [&] { contenders.RunTorch(backward); },
                                                  [&] { peak = std::max(peak, reference::FmaPeak(4, 0.005)); }},
                                                 options.rounds, options.seconds);
  row.heed_ms = timings[0].minimum * 1e3;
  row.heed_median_ms = timings[0].median * 1e3;
  row.torch_ms = timings[1].minimum * 1e3;
  row.torch_median_ms = timings[1].median * 1e3;
  row.ratio = row.torch_ms / row.heed_ms;
  row.peak_gflops = peak * 1e-9;
  // The backward pass recomputes the scores: five products to the forward pass's two.
  const double operations = contenders.Operations() * (backward ? 3.5 : 1.0);
  row.percent_of_peak = 100.0 * operations / timings[0].minimum / (peak * threads);
  row.torch_percent_of_peak = 100.0 * operations / timings[1].minimum / (peak * threads);
  return row;
}

}  // namespace

std::vector<BenchRow> RunBench(const BenchOptions& options, const std::function<void(const BenchRow&)>& done) {
  const std::vector<BenchCase> cases = CasesOf(options.suite);
  Progress progress("bench", static_cast<int64_t>(2 * cases.size()), options.quiet);
  std::vector<BenchRow> rows;
  for (const BenchCase& c : cases)
    for (bool backward : {false, true}) {
      if (Interrupted()) throw Interruption("interrupted after " + std::to_string(rows.size()) + " measurements");
      rows.push_back(Measure(c, options, backward));
      done(rows.back());
      progress.Update(static_cast<int64_t>(rows.size()), c.suite);
    }
  at::set_num_threads(options.threads);
  return rows;
}

double GeometricMeanRatio(const std::vector<BenchRow>& rows) {
  double sum = 0;
  for (const BenchRow& row : rows) sum += std::log(row.ratio);
  return rows.empty() ? 0 : std::exp(sum / static_cast<double>(rows.size()));
}

Figure BenchFigure(const std::vector<BenchRow>& rows) {
  LinePlot plot;
  plot.x_label = "sequence length n";
  plot.y_label = "LibTorch's time over heed's";
  plot.log_x = plot.log_y = true;
  for (const BenchRow& row : rows) {
    const std::string name = row.option + ", " + row.pass;
    if (plot.series.empty() || plot.series.back().name != name) plot.series.push_back({name, {}, {}, {}, {}});
    plot.series.back().x.push_back(static_cast<double>(row.length));
    plot.series.back().y.push_back(row.ratio);
  }
  return {"bench", "heed beside LibTorch", "Above 1 heed is faster. Minimum of interleaved rounds in one process.",
          "heed bench", plot};
}

}  // namespace heed::lab
