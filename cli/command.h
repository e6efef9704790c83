// What the commands of the `heed` program share. One small file per command: parse, one call into the lab, print.
#ifndef HEED_CLI_COMMAND_H_
#define HEED_CLI_COMMAND_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include <CLI/CLI.hpp>

namespace heed::cli {

// What a shell is told, for --help and the manual page.
inline constexpr char kExitCodes[] =
    "0: done. 1: it failed, as a file that cannot be read or written. 2: an argument is wrong. 130: Ctrl-C ended it; what was "
    "finished is kept.";

// The options that every command has.
struct Context {
  bool json = false;   // results as JSON on stdout
  bool quiet = false;  // no messages and no progress on stderr
  uint64_t seed = 0;
  bool seed_given = false;
  int threads = 0;     // 0: as many as this process may use
  std::string config;  // a file that options came from
};
// How many that is.
int ThreadsOf(const Context& context);

// An option or argument that names a file, a folder or a column. An empty name, as an unset variable of a shell gives it, is a
// usage error: it would else count as none, or as the current folder.
inline CLI::Option* AddName(CLI::App& command, const char* option, std::string& value, const std::string& text) {
  return command.add_option(option, value, text)->check([](const std::string& name) {
    return name.empty() ? std::string("it is empty; expected a name, or the option left out") : std::string();
  });
}

// An option that takes a list as one word with commas: what follows is never taken for a part of it.
template <class T>
CLI::Option* AddList(CLI::App& command, const char* option, std::vector<T>& values, const std::string& text) {
  return command.add_option(option, values, text)->delimiter(',')->allow_extra_args(false);
}

// The body of the command that was chosen; returns the exit code: 0 done, 1 failed. heed::Error thrown inside is printed by
// main and ends with 1 (InvalidArgument caused by an option: 2); an interruption ends with 130.
using Run = std::function<int(const Context&)>;

// A command of the program. Its file holds one at namespace scope, which is all that makes it known.
class Command {
 public:
  using Add = std::function<void(CLI::App& app, Run& run)>;
  // `place` orders the commands in --help. `Arguments` are made from the subcommand: they add their options to it, and a
  // copyable example in the footer. Their address stays as it is.
  template <class Arguments>
  Command(int place, const char* name, const char* text, int (*body)(Arguments& arguments, const Context& context)) {
    All().emplace(place, [=](CLI::App& app, Run& run) {
      CLI::App* const command = app.add_subcommand(name, text);
      const auto arguments = std::make_shared<std::remove_const_t<Arguments>>(*command);
      command->callback([=, &run] { run = [=](const Context& context) { return body(*arguments, context); }; });
    });
  }
  // All of them, in order.
  static std::map<int, Add>& All();
};

}  // namespace heed::cli

#endif  // HEED_CLI_COMMAND_H_
