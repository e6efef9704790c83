// Labelled sequences in a file, for commands that take them as well as a text.
#ifndef HEED_CLI_DATA_FILE_H_
#define HEED_CLI_DATA_FILE_H_

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "cli/command.h"
#include "cli/fields.h"
#include "lab/series/data.h"

namespace heed::cli {

// Whether its name ends like an array's.
bool IsNpy(const std::filesystem::path& path);

// What the options tell of the data.
struct DataArguments : lab::SeriesColumns {
  bool dry_run = false;

  // Whether the file is data; else it is a text. Throws InvalidArgument that names an option which tells of data where neither
  // target nor goal does.
  bool Given() const;
  // A file that stands behind the words of a list is the command's: `--features x y data.csv`.
  void TakeFile(std::string& text);
  // The file and these options as they are typed, quoted where a shell needs it.
  std::string Words(const std::string& path) const;
};

void AddDataOptions(CLI::App& command, DataArguments& arguments);
// Those that tell how a CSV file for a kept model is written, and what its texts are that the model does not know.
void AddLaterOptions(CLI::App& command, lab::LaterCsv& csv);
// Of what is no CSV file. Throws InvalidArgument that names an option which was given, and says why.
void RequireNoLaterOptions(const lab::LaterCsv& csv, const std::string& why);

// The data of the target; of `several`, which a study forecasts, of each. `flags`: the options of the study or the training,
// some of which need a forecast or no --part. Throws InvalidArgument that names the option, and FileError.
std::vector<lab::SeriesData> ReadData(const std::string& path, const DataArguments& arguments, const FieldFlags* flags,
                                      bool several = false);

// What the reader of a file should know of it, to stderr; nothing where --quiet is given.
void TellNotes(const std::string& name, const std::vector<std::string>& notes, const Context& context);
// What --dry-run prints: what was understood, column by column. horizon: of a forecast, the option or its default.
void PrintData(lab::SeriesData data, int64_t horizon, const Context& context);

}  // namespace heed::cli

#endif  // HEED_CLI_DATA_FILE_H_
