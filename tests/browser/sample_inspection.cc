// Pages of attention maps for check_inspection.py: sample_inspection DIRECTORY
//
//   full.html    2,000 tokens, 2 layers of 4 heads, causal, among them characters that a page must not trust
//   coarse.html  the same with a budget that asks for cells of several tokens
//   masked.html  a model that sees both sides
#include <cstdio>
#include <exception>
#include <filesystem>
#include <string>

#include <ATen/Context.h>
#include <ATen/core/grad_mode.h>

#include "lab/inspection/page.h"
#include "lab/report/file.h"
#include "lab/training/language_model.h"

namespace heed::lab {
namespace {

constexpr int64_t kTokens = 2000;

Text SampleText() {
  Text text{"a text & its <name>",
            U"</script><script>alert(1)</script>\t\u202eabc\u2069e\u0301\u00a0\u200d&\"' \u05d0\u05d1 \n"};
  while (static_cast<int64_t>(text.characters.size()) < kTokens) text.characters += U"one two, three! four and five;\nsix ";
  text.characters.resize(kTokens);
  return text;
}

// Not trained: weights large enough that heads differ and look somewhere.
LanguageModel SampleModel(const Text& text, Objective objective) {
  ModelOptions options;
  options.objective = objective;
  options.position = "alibi";
  options.layers = 2;
  options.heads = 4;
  options.width = 64;
  options.context = 128;
  at::manual_seed(7);
  LanguageModel model(options, Vocabulary(text.characters));
  const at::NoGradGuard no_grad;
  for (at::Tensor& parameter : model->parameters()) {
    if (parameter.dim() > 1) parameter.mul_(3);
  }
  model->eval();
  return model;
}

void WriteSamples(const std::filesystem::path& directory) {
  const Text text = SampleText();
  LanguageModel causal = SampleModel(text, Objective::kCausal), masked = SampleModel(text, Objective::kMasked);
  const auto write = [&](const char* name, const Reading& reading, const InspectionOptions& options) {
    WriteFile(directory / name, InspectionPage(Inspect(reading, options), "model </title> & \"more\""));
  };
  InspectionOptions coarse, few;
  coarse.budget = 600'000;
  few.selection.heads = {0, 2};
  write("full.html", ReadingOf(causal, text), {});
  write("coarse.html", ReadingOf(causal, text), coarse);
  write("masked.html", ReadingOf(masked, text, 90), few);
}

}  // namespace
}  // namespace heed::lab

int main(int argc, char** argv) {
  if (argc != 2) return std::fputs("usage: sample_inspection DIRECTORY\n", stderr), 2;
  try {
    heed::lab::WriteSamples(argv[1]);
  } catch (const std::exception& error) {
    return std::fprintf(stderr, "%s\n", error.what()), 1;
  }
  return 0;
}
