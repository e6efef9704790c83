#include "lab/training/kept_counts.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <iterator>

#include <ATen/ATen.h>

#include "heed/nn/safetensors.h"
#include "lab/report/file.h"
#include "lab/report/json.h"

namespace heed::lab {

void WriteCounts(const KeptCounts& kept, const std::filesystem::path& folder) {
  Passages counted;
  ForEachCounted(kept.text.ends, [&](int64_t begin, int64_t end) {
    counted.tokens.insert(counted.tokens.end(), kept.text.tokens.begin() + begin, kept.text.tokens.begin() + end);
    counted.ends.push_back(counted.size());
  });
  const nlohmann::ordered_json json = {{"format", 1},
                                       {"kind", "counts"},
                                       {"name", kept.name},
                                       {"order", kept.order},
                                       {"discount", kept.discount},
                                       {"vocabulary", EncodeUtf8(kept.vocabulary.characters())},
                                       {"training", kept.training},
                                       {"reached", kept.reached}};
  MakeFolderOf(folder / "config.json");
  std::filesystem::remove(folder / "config.json");  // never are there settings beside the counts of another model
  nn::WriteSafetensors((folder / "model.safetensors").string(),
                       {{"tokens", at::tensor(counted.tokens, at::kInt)}, {"ends", at::tensor(counted.ends, at::kLong)}},
                       {{"format", "pt"}});
  WriteFile(folder / "config.json", JsonText(json, 1) + "\n");
}

Evaluation Evaluate(const CountingModel& model, const std::vector<int32_t>& tokens) {
  const auto start = std::chrono::steady_clock::now();
  const double loss = model.Loss(tokens);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  const int64_t predictions = std::ssize(tokens) - 1;
  return {model.order(), predictions, loss, std::exp(loss), static_cast<double>(predictions) / std::max(seconds, 1e-9)};
}

std::u32string Generate(const CountingModel& model, const Text& prompt, const GenerateOptions& options,
                        const std::function<void(char32_t)>& on_character) {
  const auto next = [&](const std::vector<int32_t>& tokens) { return model.Logits(tokens); };
  return Continuation(Vocabulary(model.characters()), prompt, options, next, on_character);
}

}  // namespace heed::lab
