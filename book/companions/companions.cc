#include "book/companions/companions.h"

#include <algorithm>
#include <cstdio>
#include <optional>
#include <string>

#include "book/comparison/output.h"
#include "book/depth/output.h"
#include "book/tasks/output.h"
#include "lab/data/corpus.h"
#include "lab/training/run_folder.h"

namespace heed::lab {
namespace {

PageLink WriteLayers(const CompanionOptions& options, const StudyOptions& study, const std::filesystem::path& folder,
                     const std::filesystem::path& link) {
  ComparisonOptions comparison;
  comparison.layers = LayersNamed(
      {"convolution", "convolution-causal", "dilated-causal", "rnn", "gru", "lstm", "attention", "attention-causal"});
  comparison.lengths = options.compared_lengths;
  comparison.width = study.width;
  comparison.heads = study.heads;
  comparison.influence_length = comparison.lengths.back();
  comparison.seed = study.seed;
  comparison.quiet = study.quiet;
  const Comparison compared = Compare(comparison);
  WriteComparison(compared, folder / link.parent_path());
  return {"Single layers: operations, steps, paths", link, ComparisonFindings(compared).at(1)};
}

PageLink WriteStacks(const Text& text, const DepthOptions& options, const std::filesystem::path& folder,
                     const std::filesystem::path& link) {
  const std::filesystem::path own = folder / link.parent_path();
  Corpus corpus = MakeCorpus(text, options.context);
  corpus.validation.resize(std::min<std::size_t>(corpus.validation.size(), options.validation));
  const std::optional<ResultStore> store = StoreOf(own, text);
  const DepthResult result = MeasureDepth(corpus, options, "deep stacks", &*store);
  WriteDepth(result, text.name, CommandOf(options, text.path, own), own);
  return {"Deep stacks", link, DepthConclusion(result)};
}

PageLink WriteTasks(const TaskOptions& options, const StudyResult& study, const std::filesystem::path& folder,
                    const std::filesystem::path& link) {
  const ResultStore store(folder / link.parent_path() / "runs", ResultSettings(study.environment));
  const TasksResult result = RunTasks(options, "tasks", &store);
  WriteTasks(result, folder / link.parent_path());
  return {"Tasks whose answers are known", link, TasksConclusion(result)};
}

}  // namespace

std::vector<PageLink> WriteCompanions(const Text& text, const StudyResult& result, const CompanionOptions& options,
                                      const std::filesystem::path& folder) {
  const StudyOptions& study = result.options;
  std::vector<PageLink> links;
  if (!study.quiet) std::fprintf(stderr, "positions\n");
  links.push_back(WriteEncoding(result, folder, "positions/report.html"));
  if (!study.quiet) std::fprintf(stderr, "single layers\n");
  links.push_back(WriteLayers(options, study, folder, "compare/report.html"));
  if (const std::optional<DepthOptions> depth = DeepStacks(options, study)) {
    links.push_back(WriteStacks(text, *depth, folder, "depth/report.html"));
  }
  if (const std::optional<TaskOptions> tasks = Tasks(options, study)) {
    links.push_back(WriteTasks(*tasks, result, folder, "tasks/report.html"));
  }
  return links;
}

}  // namespace heed::lab
