// Names of files and folders on the command line.
#ifndef HEED_CLI_PLACE_H_
#define HEED_CLI_PLACE_H_

#include <string>

#include <CLI/CLI.hpp>

namespace heed::cli {

// An option or argument that names a file, a folder or a column. An empty name, as an unset variable of a shell gives it, is a
// usage error: it would else count as none, or as the current folder.
CLI::Option* AddName(CLI::App& command, const char* option, std::string& value, const std::string& text);

}  // namespace heed::cli

#endif  // HEED_CLI_PLACE_H_
