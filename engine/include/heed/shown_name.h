// Texts from outside in messages: names from files, instructions of programs.
#ifndef HEED_SHOWN_NAME_H_
#define HEED_SHOWN_NAME_H_

#include <string>
#include <string_view>

namespace heed {

// Whether a character may stand on a terminal as it is: none that controls it, ends a line, turns the direction of writing or
// is no character (Unicode 15, sections 23.1, 23.2 and 23.7).
bool IsPrintable(char32_t character);

// A text that may hold anything, printable on one line: a JSON string of its first 80 characters in UTF-8, with "..." where
// there are more. What is not printable stands as \u001b, each byte that is no UTF-8 as \ufffd. ShownName leaves the quotes
// out.
std::string QuotedName(std::string_view name);
std::string ShownName(std::string_view name);

}  // namespace heed

#endif  // HEED_SHOWN_NAME_H_
