#include <iostream>
#include <string>

#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "heed/error.h"
#include "lab/data/text.h"
#include "lab/report/json.h"
#include "lab/training/generation.h"
#include "lab/training/interrupt.h"
#include "lab/training/kept_counts.h"
#include "lab/training/trainer.h"

namespace heed::cli {
namespace {

struct GenerateArguments {
  explicit GenerateArguments(CLI::App& command) {
    AddName(command, "DIR", folder, "Folder of a training run")->required();
    command.add_option("--prompt", prompt, "Text to continue; default: a new line");
    command.add_option("--tokens", options.tokens, "Characters to add")->capture_default_str();
    command.add_option("--temperature", options.temperature, "Divides the logits; 0: the most likely character")
        ->capture_default_str();
    command.add_option("--top-k", options.top_k, "Draw from the K most likely only; 0: from all")->capture_default_str();
    command.footer("Example:\n  heed generate run --prompt 'ROMEO:' --tokens 300 --temperature 0.8 --top-k 20");
  }

  std::string folder, prompt = "\n";
  lab::GenerateOptions options;
};

template <class Model>
int Continue(Model& model, const GenerateArguments& arguments, const lab::Text& prompt, const Context& context) {
  lab::GenerateOptions options = arguments.options;
  options.seed = context.seed;
  lab::WatchForInterrupt();
  if (context.json) {
    const std::string continuation = EncodeUtf8(lab::Generate(model, prompt, options));
    const nlohmann::ordered_json result = {
        {"prompt", arguments.prompt}, {"continuation", continuation}, {"seed", options.seed}};
    std::cout << lab::JsonText(result) << "\n";
    return 0;
  }
  std::string pending = arguments.prompt;  // printed once nothing more is refused
  lab::Generate(model, prompt, options, [&](char32_t character) {
    std::cout << pending << EncodeUtf8(std::u32string_view(&character, 1)) << std::flush;
    pending.clear();
  });
  std::cout << pending << "\n";
  return 0;
}

int RunGenerate(const GenerateArguments& arguments, const Context& context) {
  if (arguments.prompt.empty()) throw InvalidArgument("prompt: it is empty; give at least one character");
  const lab::Text prompt = lab::DecodeText("prompt", arguments.prompt);
  if (CountingModel::IsIn(arguments.folder)) {
    const CountingModel model(arguments.folder);
    return Continue(model, arguments, prompt, context);
  }
  auto model = lab::LoadModel(lab::RunFolder(arguments.folder));
  return Continue(model, arguments, prompt, context);
}

const Command kGenerate(30, "generate", "Let a trained model continue a text", &RunGenerate);

}  // namespace
}  // namespace heed::cli
