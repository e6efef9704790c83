// Options from a file.
#ifndef HEED_CLI_CONFIG_H_
#define HEED_CLI_CONFIG_H_

#include <string>
#include <vector>

#include <CLI/CLI.hpp>

namespace heed::cli {

// The arguments of the program, with those behind them that the file of --config gives and they do not. The file is TOML or INI
// as CLI11 reads it: a line an option, as steps = 300, by the names of the flags; lists with commas; names with spaces in
// quotes. What stands below [study] is for that command alone. Throws InvalidArgument where the command has no such option,
// and FileError.
std::vector<std::string> WithConfig(const CLI::App& app, std::vector<std::string> arguments);

}  // namespace heed::cli

#endif  // HEED_CLI_CONFIG_H_
