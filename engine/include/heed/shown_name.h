// Texts from outside in messages: names from files, instructions of programs.
#ifndef HEED_SHOWN_NAME_H_
#define HEED_SHOWN_NAME_H_

#include <string>
#include <string_view>

namespace heed {

// A text that may hold anything, as printable ASCII on one line: a JSON string of its first 80 characters, with "..." where
// there are more, and U+FFFD for each byte that is no UTF-8. ShownName leaves the quotes out.
std::string QuotedName(std::string_view name);
std::string ShownName(std::string_view name);

}  // namespace heed

#endif  // HEED_SHOWN_NAME_H_
