// heed help: what --help says, completion for shells and a manual page, all from the description of the options.
#include <iostream>
#include <string>
#include <vector>

#include <fmt/ranges.h>
#include <boost/algorithm/string/replace.hpp>

#include "cli/command.h"

namespace heed::cli {
namespace {

std::vector<const CLI::App*> CommandsOf(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App*) { return true; });
}

// Options that --help shows; arguments without a flag are left out.
std::vector<const CLI::Option*> OptionsOf(const CLI::App& command) {
  return command.get_options([](const CLI::Option* option) { return !option->get_group().empty() && option->nonpositional(); });
}

// "--out", "-h": as they are typed.
std::vector<std::string> FlagsOf(const CLI::App& command) {
  std::vector<std::string> flags;
  for (const CLI::Option* option : OptionsOf(command)) {
    for (const std::string& name : option->get_lnames()) flags.push_back("--" + name);
  }
  return flags;
}

std::vector<std::string> NamesOf(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : CommandsOf(app)) names.push_back(command->get_name());
  return names;
}

std::string BashCompletion(const CLI::App& app) {
  std::string cases;
  for (const CLI::App* command : CommandsOf(app))
    cases += fmt::format("    {}) flags=\"{}\" ;;\n", command->get_name(), fmt::join(FlagsOf(*command), " "));
  return fmt::format(
      "_heed() {{\n"
      "  local word=\"${{COMP_WORDS[COMP_CWORD]}}\" flags=\"\"\n"
      "  if [ \"$COMP_CWORD\" = 1 ]; then\n"
      "    COMPREPLY=($(compgen -W \"{}\" -- \"$word\"))\n"
      "    return\n"
      "  fi\n"
      "  case \"${{COMP_WORDS[1]}}\" in\n{}  esac\n"
      "  case \"$word\" in\n"
      "    -*) COMPREPLY=($(compgen -W \"$flags\" -- \"$word\")) ;;\n"
      "    *) COMPREPLY=($(compgen -f -- \"$word\")) ;;\n"
      "  esac\n"
      "}}\n"
      "complete -o filenames -F _heed heed\n",
      fmt::join(NamesOf(app), " "), cases);
}

// Text within '[...]' of a specification that stands in single quotes.
std::string ForZsh(std::string text) {
  for (const char* special : {"\\", "[", "]", ":"}) boost::replace_all(text, special, std::string("\\") + special);
  return boost::replace_all_copy(text, "'", "'\\''");
}

std::string ZshCompletion(const CLI::App& app) {
  std::string commands, cases;
  for (const CLI::App* command : CommandsOf(app)) {
    commands += fmt::format(" '{}:{}'", command->get_name(), ForZsh(command->get_description()));
    cases += fmt::format("    {}) _arguments", command->get_name());
    for (const CLI::Option* option : OptionsOf(*command)) {
      for (const std::string& name : option->get_lnames()) {
        const bool takes = option->get_expected_max() > 0 && option->get_items_expected_max() > 0;
        cases += fmt::format(" '--{}[{}]{}'", name, ForZsh(option->get_description()), takes ? ":value:_files" : "");
      }
    }
    cases += " '*:file:_files' ;;\n";
  }
  return fmt::format(
      "#compdef heed\n"
      "_heed() {{\n"
      "  if (( CURRENT == 2 )); then\n"
      "    local -a commands=({})\n"
      "    _describe command commands\n"
      "    return\n"
      "  fi\n"
      "  local command=$words[2]\n"
      "  shift words\n"
      "  (( CURRENT-- ))\n"
      "  case $command in\n{}  esac\n"
      "}}\n"
      "if [ \"$funcstack[1]\" = _heed ]; then _heed \"$@\"; else compdef _heed heed; fi\n",
      commands, cases);
}

// A line of roff in which nothing is a command or an escape.
std::string ForRoff(const std::string& text) {
  std::string escaped = "\n" + text;
  for (const auto& [plain, roff] : {std::pair("\\", "\\e"), {"-", "\\-"}, {"\n.", "\n\\&."}, {"\n'", "\n\\&'"}})
    boost::replace_all(escaped, plain, roff);
  return escaped.substr(1);
}

std::string ManualPage(const CLI::App& app) {
  std::string page = fmt::format(".TH HEED 1 \"\" \"heed " HEED_VERSION
                                 "\"\n.SH NAME\nheed \\- {}\n.SH SYNOPSIS\n.B heed\n.I COMMAND\n[OPTIONS]\n.SH COMMANDS\n",
                                 ForRoff(app.get_description()));
  for (const CLI::App* command : CommandsOf(app)) {
    page += fmt::format(".SS heed {}\n{}\n", command->get_name(), ForRoff(command->get_description()));
    for (const CLI::Option* option : OptionsOf(*command))
      page += fmt::format(".TP\n\\fB{}\\fR\n{}\n", ForRoff(option->get_name(false, true)), ForRoff(option->get_description()));
    if (!command->get_footer().empty()) page += fmt::format(".PP\n.nf\n{}\n.fi\n", ForRoff(command->get_footer()));
  }
  return page + fmt::format(".SH EXIT STATUS\n{}\n", ForRoff(kExitCodes));
}

struct HelpArguments {
  explicit HelpArguments(CLI::App& command) : app(*command.get_parent()) {
    command.add_option("--completion", completion, "Print a script that completes commands and flags; one of bash, zsh")
        ->check(CLI::IsMember({"bash", "zsh"}));
    command.add_flag("--man", man, "Print the manual page");
    command.footer(
        "Examples:\n  heed help study\n  heed help --completion bash > ~/.local/share/bash-completion/completions/heed\n"
        "  heed help --man | man -l -");
  }

  const CLI::App& app;
  std::string completion;
  bool man = false;
};

int RunHelp(const HelpArguments& arguments, const Context&) {
  const CLI::App& app = arguments.app;
  if (!arguments.completion.empty()) {
    std::cout << (arguments.completion == "bash" ? BashCompletion(app) : ZshCompletion(app));
    return 0;
  }
  if (arguments.man) {
    std::cout << ManualPage(app);
    return 0;
  }
  // help() itself would tell of the command that was chosen, which is this one.
  std::cout << app.get_formatter()->make_help(&app, app.get_name(), CLI::AppFormatMode::Normal);
  return 0;
}

const Command kHelp(5, "help", "List the commands, or describe one COMMAND", &RunHelp);

}  // namespace
}  // namespace heed::cli
