// Lists of lengths on the command line.
#ifndef HEED_CLI_LENGTHS_H_
#define HEED_CLI_LENGTHS_H_

#include <cstdint>
#include <string>
#include <vector>

namespace heed::cli {

// "16:1024" as 16, 32, ... up to 1024; "10,100" as it stands; both may be mixed. Sorted, each length once. Throws
// InvalidArgument that names --lengths.
std::vector<int64_t> ParseLengths(const std::string& text);

}  // namespace heed::cli

#endif  // HEED_CLI_LENGTHS_H_
