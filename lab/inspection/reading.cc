#include "lab/inspection/reading.h"

#include <algorithm>
#include <utility>
#include <vector>

#include <ATen/ops/tensor.h>
#include <fmt/core.h>

#include "heed/error.h"
#include "heed/shown_name.h"
#include "lab/series/form.h"
#include "lab/series/kept_model.h"
#include "lab/training/language_model.h"

namespace heed::lab {
namespace {

// How many of `length` tokens are shown. Throws InvalidArgument where they are more than a page holds.
int64_t ShownTokens(const std::string& name, const std::string& unit, int64_t length, int64_t tokens) {
  if (tokens < 0) throw InvalidArgument("tokens: expected 1 or more, or 0 for all, got " + std::to_string(tokens));
  const int64_t shown = tokens == 0 ? length : std::min(tokens, length);
  if (shown <= kMostTokens) return shown;
  throw InvalidArgument(fmt::format("{}: {} {} are more than the {} that a page can hold; --tokens {} shows the first of them",
                                    name, shown, unit, kMostTokens, kMostTokens));
}

const SeriesSequence& SequenceNamed(const SeriesData& data, const std::string& id) {
  if (id.empty()) return data.sequences.front();
  const auto found = std::ranges::find(data.sequences, id, &SeriesSequence::id);
  if (found != data.sequences.end()) return *found;
  throw InvalidArgument("only-sequence: " + data.name + " has no sequence " + ShownName(id));
}

}  // namespace

Reading ReadingOf(const LanguageModel& model, const Text& text, int64_t tokens) {
  const ModelOptions& options = model->options();
  const std::string name = "text '" + text.name + "'", unit = "characters";
  const int64_t shown = ShownTokens(name, unit, std::ssize(text.characters), tokens), longest = model->longest();
  if (shown > longest) {
    throw InvalidArgument(
        fmt::format("{}: {} characters are more than the {} rows of the model's learned position table; "
                    "--tokens {} shows the first of them",
                    name, shown, longest, std::min(longest, kMostTokens)));
  }
  const std::u32string characters = text.characters.substr(0, shown);
  const at::Tensor read = at::tensor(model->vocabulary().Encode({text.name, characters}), at::kLong).unsqueeze(0);
  return {.name = text.name,
          .shown = EncodeUtf8(characters),
          .unit = unit,
          .legend = "Text, one token a character.",
          .tokens = shown,
          .encoder = options.encoder,
          .position = options.position,
          .layers = options.layers,
          .heads = options.heads,
          .causal = options.objective == Objective::kCausal,
          .model = model.ptr(),
          .run = [model = model.ptr(), read] { LanguageModel(model)->forward(read); }};
}

Reading ReadingOf(const KeptModel& model, const SeriesData& data, const std::string& sequence, int64_t tokens) {
  if (!model.network) throw InvalidArgument("model: it is " + model.name + ", which has no attention");
  RequireComputable(data, model.form);
  const SeriesSequence& chosen = SequenceNamed(data, sequence);
  SeriesWindow window = model.form.WindowOf(data, &chosen - data.sequences.data());
  const std::string name = data.name + (data.sequences.size() > 1 ? ", sequence " + ShownName(chosen.id) : ""), unit = "steps";
  window.steps = ShownTokens(name, unit, window.steps, tokens);
  const bool values = data.features.size() == 1;
  nlohmann::ordered_json shown = nlohmann::ordered_json::array();
  for (int64_t step = window.first; step < window.end(); ++step)
    shown.push_back(values ? fmt::format("{:.4g}", chosen.features[step * data.numbers()]) : std::to_string(step));
  const std::shared_ptr<SeriesNetwork> network = NetworkOf(model);
  const SequenceModelOptions& options = *model.network;
  return {.name = name,
          .shown = std::move(shown),
          .unit = unit,
          .legend = values ? "Steps, each as the value of " + ShownName(data.features.front()) + "."
                           : "Steps, each as its number in the sequence, from 0.",
          .tokens = window.steps,
          .encoder = options.encoder,
          .position = options.position,
          .layers = options.layers,
          .heads = options.heads,
          .causal = options.causal,
          .model = {network, &network->module()},
          .run = [network, form = model.form, batch = model.form.Make(data, {window}, Targets::kNone)] {
            network->Answers(form, batch);
          }};
}

}  // namespace heed::lab
