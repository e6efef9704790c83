#include "cli/config.h"

#include <algorithm>
#include <optional>
#include <sstream>

#include <fmt/ranges.h>

#include "heed/error.h"
#include "heed/safetensors.h"
#include "lab/report/file.h"

namespace heed::cli {
namespace {

constexpr int64_t kMostBytes = 1 << 20;

// "--name value" or "--name=value"; nothing behind "--", where names of files follow.
std::optional<std::string> ValueOf(const std::vector<std::string>& arguments, const std::string& flag) {
  for (std::size_t i = 0; i < arguments.size() && arguments[i] != "--"; ++i) {
    if (arguments[i] == flag) return i + 1 < arguments.size() ? arguments[i + 1] : std::string();
    if (arguments[i].starts_with(flag + "=")) return arguments[i].substr(flag.size() + 1);
  }
  return std::nullopt;
}

std::vector<CLI::ConfigItem> ReadItems(const std::string& path) {
  std::istringstream text{std::string(lab::RequireUtf8(path, lab::ReadFile(path, kMostBytes)))};
  try {
    return CLI::ConfigBase().from_config(text);
  } catch (const CLI::Error& error) {
    throw FileError(path + ": " + error.what());
  }
}

const CLI::App* CommandNamed(const CLI::App& app, const std::string& name) {
  const auto found = app.get_subcommands([&](const CLI::App* command) { return command->get_name() == name; });
  return found.empty() ? nullptr : found.front();
}

}  // namespace

std::vector<std::string> WithConfig(const CLI::App& app, std::vector<std::string> arguments) {
  const std::optional<std::string> path = ValueOf(arguments, "--config");
  // A name that is missing or empty is refused with the other arguments.
  const CLI::App* command = path && !path->empty() ? CommandNamed(app, arguments.front()) : nullptr;
  if (command == nullptr) return arguments;
  std::vector<std::string> given;
  for (const CLI::ConfigItem& item : ReadItems(*path)) {
    const bool opens_or_closes = item.name == "++" || item.name == "--";
    if (opens_or_closes || (!item.parents.empty() && item.parents.front() != command->get_name())) {
      const std::string& section = item.parents.empty() ? item.name : item.parents.front();
      if (CommandNamed(app, section) == nullptr) throw InvalidArgument(*path + ": [" + ShownName(section) + "] is no command");
      continue;
    }
    const std::string flag = "--" + item.name;
    if (item.parents.size() > 1 || item.name == "config" || command->get_option_no_throw(flag) == nullptr) {
      throw InvalidArgument(*path + ": '" + ShownName(item.fullname()) + "' is no option of heed " + command->get_name());
    }
    if (!ValueOf(arguments, flag)) given.push_back(fmt::format("{}={}", flag, fmt::join(item.inputs, ",")));
  }
  // Before "--", behind which nothing is an option.
  arguments.insert(std::ranges::find(arguments, "--"), given.begin(), given.end());
  return arguments;
}

}  // namespace heed::cli
