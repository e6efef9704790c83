// heed study on labelled sequences instead of a text.
#ifndef HEED_CLI_DATA_STUDY_H_
#define HEED_CLI_DATA_STUDY_H_

#include <string>
#include <vector>

#include "cli/command.h"
#include "lab/series/options.h"

namespace heed::cli {

// What the options tell of the data.
struct DataArguments {
  std::string target, sequence, time, goal;
  std::vector<std::string> features;

  // Whether the file is data; else it is a text. Throws InvalidArgument that names an option which tells of data where neither
  // target nor goal does.
  bool Given() const;
};

void AddDataOptions(CLI::App& command, DataArguments& arguments);

// Reads the file, trains, writes the page to `out` and prints the conclusion. Returns the exit code. horizon: whether one was
// given, which is refused where nothing is forecast.
int RunDataStudy(const std::string& path, const DataArguments& arguments, const lab::SeriesOptions& options, bool horizon,
                 const std::string& out, const Context& context);

}  // namespace heed::cli

#endif  // HEED_CLI_DATA_STUDY_H_
