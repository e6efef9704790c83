// What somebody may have meant.
#ifndef HEED_CLI_SUGGESTION_H_
#define HEED_CLI_SUGGESTION_H_

#include <string>
#include <vector>

namespace heed::cli {

// The name that the fewest insertions, deletions, replacements and swaps of neighbours turn `word` into; empty when even that
// takes more than a third of its letters (but at least two).
std::string Nearest(const std::string& word, const std::vector<std::string>& names);

}  // namespace heed::cli

#endif  // HEED_CLI_SUGGESTION_H_
