// The heed program: finds the command, runs it, turns errors into messages and exit codes.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <exception>
#include <iostream>
#include <map>
#include <new>
#include <stdexcept>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "cli/command.h"
#include "cli/config.h"
#include "cli/idle_threads.h"
#include "cli/suggestion.h"
#include "heed/error.h"
#include "heed/executor.h"
#include "heed/safetensors.h"
#include "lab/report/printable.h"
#include "lab/training/compute.h"
#include "lab/training/interrupt.h"

namespace heed::cli {

std::map<int, Command::Add>& Command::All() {
  static std::map<int, Add> commands;
  return commands;
}

int ThreadsOf(const Context& context) { return context.threads > 0 ? context.threads : AvailableThreads(); }

namespace {

enum ExitCode { kDone = 0, kFailed = 1, kUsage = 2, kInterrupted = 130 };

constexpr std::size_t kMostShown = 3500;  // bytes of a message

void AddCommonOptions(CLI::App& app, Context& context) {
  for (CLI::App* command : app.get_subcommands({})) {
    command->add_flag("--json", context.json, "Print results as JSON");
    command->add_option("--seed", context.seed, "Seed of every random choice")
        ->check(CLI::NonNegativeNumber)
        ->capture_default_str()
        ->each([&context](const std::string&) { context.seed_given = true; });
    command->add_option("--threads", context.threads, "Threads to compute with; default: all that this process may use")
        ->check(CLI::Range(1, 1024));
    AddName(*command, "--config", context.config,
            "File with options, one a line as steps = 300; options of the command line win");
    command->add_flag("--quiet", context.quiet, "No messages and no progress on stderr");
  }
}

int Fail(const std::string& message, ExitCode code) {
  std::cerr << "heed: " + lab::PrintableLines(message, kMostShown) + "\n";  // in one write: the ranks of a run share a terminal
  return code;
}

// What was typed, where "help COMMAND" is another way to type "COMMAND --help".
std::vector<std::string> Arguments(int argc, char** argv) {
  std::vector<std::string> arguments(argv + std::min(argc, 1), argv + argc);
  if (arguments.size() > 1 && arguments[0] == "help" && !arguments[1].starts_with('-')) {
    arguments.erase(arguments.begin());
    arguments.emplace_back("--help");
  }
  return arguments;
}

// A command that does not exist, named with the nearest that does. CLI11 itself would only say that it was not expected.
std::string UnknownCommand(const CLI::App& app, const std::vector<std::string>& arguments) {
  if (arguments.empty() || arguments.front().starts_with('-')) return {};
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    names.push_back(command->get_name());
  }
  if (std::ranges::find(names, arguments.front()) != names.end()) return {};
  std::string message = "'" + ShownName(arguments.front()) + "' is not a command";
  const std::string nearest = Nearest(arguments.front(), names);
  if (!nearest.empty()) message += "; did you mean '" + nearest + "'?";
  return message + "\nRun 'heed --help' for the list of commands.";
}

int Parse(CLI::App& app, const std::vector<std::string>& given, bool& proceed) {
  const std::string unknown = UnknownCommand(app, given);
  if (!unknown.empty()) return Fail(unknown, kUsage);
  try {
    std::vector<std::string> arguments = WithConfig(app, given);
    std::ranges::reverse(arguments);  // as CLI11 takes them
    app.parse(arguments);
    proceed = true;
    return kDone;
  } catch (const InvalidArgument& error) {
    return Fail(error.what(), kUsage);
  } catch (const Error& error) {
    return Fail(error.what(), kFailed);
  } catch (const CLI::Success& request) {  // --help, --version
    return app.exit(request);
  } catch (const CLI::ParseError& error) {
    const auto chosen = app.get_subcommands();
    const std::string command = chosen.empty() ? "heed" : "heed " + chosen.front()->get_name();
    return Fail(lab::PrintableLines(error.what(), kMostShown / 2) + "\nRun '" + command + " --help' for more.", kUsage);
  }
}

// What the chosen command has of options whose smaller values need less memory.
std::string OutOfMemory(const CLI::App& app) {
  std::string options;
  for (const CLI::App* command : app.get_subcommands()) {
    for (const char* name :
         {"--batch", "--context", "--width", "--layers", "--tokens", "--length", "--lengths", "--influence"}) {
      if (command->get_option_no_throw(name) != nullptr) options += (options.empty() ? "; lower " : ", ") + std::string(name);
    }
  }
  const std::size_t last = options.rfind(", ");
  return "there is not enough memory" + (last == std::string::npos ? options : options.replace(last, 2, " or "));
}

int Execute(const Run& run, const Context& context, const CLI::App& app) {
  try {
    lab::ComputeWith(ThreadsOf(context));
    return run(context);
  } catch (const InvalidArgument& error) {
    return Fail(error.what(), kUsage);
  } catch (const Error& error) {
    return Fail(error.what(), kFailed);
  } catch (const lab::Interruption& interruption) {
    return Fail(interruption.what(), kInterrupted);
  } catch (const std::bad_alloc&) {
    return Fail(OutOfMemory(app), kFailed);
  } catch (const std::length_error&) {  // of a container that no memory could hold
    return Fail(OutOfMemory(app), kFailed);
  } catch (const std::exception& error) {
    if (const auto compute = lab::AsComputeError(error)) {
      return Fail(compute->out_of_memory ? OutOfMemory(app) : compute->text, kFailed);
    }
    if (std::ferror(stdout) != 0) return kDone;  // Finished says so
    return Fail(error.what(), kFailed);
  }
}

// The one place where output that was not written shows: of --help as of results.
int Finished(int code) {
  errno = 0;
  const bool flushed = std::fflush(stdout) == 0;
  if (flushed && std::ferror(stdout) == 0 && std::cout) return code;
  const std::string reason = errno != 0 ? std::string(": ") + std::strerror(errno) : std::string();
  return Fail("standard output cannot be written" + reason, code == kDone ? kFailed : static_cast<ExitCode>(code));
}

// The first file that is opened would take the place of a stream that was closed before the start, and messages would be
// written into it. What is printed all the same then fails as on a full disk.
void OpenStandardStreams() {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (fcntl(stream, F_GETFD) >= 0) continue;
    if (stream == STDIN_FILENO || open("/dev/full", O_WRONLY) < 0) open("/dev/null", O_RDWR);
  }
}

int Main(int argc, char** argv) {
  LetIdleThreadsSleep(argc, argv);
  // A file that outgrows a limit is then an error of the write, like a full disk, instead of a sudden end.
  std::signal(SIGXFSZ, SIG_IGN);
  OpenStandardStreams();

  CLI::App app("Self-attention with positions on the CPU: train, measure and compare sequence encoders.", "heed");
  app.set_version_flag("-v,--version", "heed " HEED_VERSION);
  app.require_subcommand(1);
  app.footer(std::string("Run 'heed help COMMAND' for the options of a command and an example.\n\nExit codes: ") + kExitCodes);
  Context context;
  Run run;
  for (const auto& [place, add] : Command::All()) add(app, run);
  AddCommonOptions(app, context);

  bool proceed = false;
  const int code = Parse(app, Arguments(argc, argv), proceed);
  return Finished(proceed ? Execute(run, context, app) : code);
}

}  // namespace
}  // namespace heed::cli

int main(int argc, char** argv) {
  try {
    return heed::cli::Main(argc, argv);
  } catch (const std::bad_alloc&) {  // before a command runs, or of a message: what is said here takes no memory
    static constexpr char kMessage[] = "heed: there is not enough memory\n";
    [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, kMessage, sizeof kMessage - 1);
    return heed::cli::kFailed;
  }
}
