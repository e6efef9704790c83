// Prints untrusted texts, such as names from files, safely in messages.
#ifndef HEED_SHOWN_NAME_H_
#define HEED_SHOWN_NAME_H_

#include <string>
#include <string_view>

namespace heed {

// Whether a terminal may print the character: false for controls, ends of lines, marks of writing direction and noncharacters
// (Unicode 15, sections 23.1, 23.2 and 23.7).
bool IsPrintable(char32_t character);

// Any text, printable on one line: a JSON string of its first 80 characters in UTF-8, then "..." if there are more. Characters
// that are not printable become \u001b, bytes that are no UTF-8 \ufffd each. ShownName omits the quotes.
std::string QuotedName(std::string_view name);
std::string ShownName(std::string_view name);

}  // namespace heed

#endif  // HEED_SHOWN_NAME_H_
