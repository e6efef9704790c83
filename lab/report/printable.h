// Texts from outside, made fit for a terminal or a page.
#ifndef HEED_LAB_REPORT_PRINTABLE_H_
#define HEED_LAB_REPORT_PRINTABLE_H_

#include <cstddef>
#include <string>
#include <string_view>

namespace heed::lab {

// Valid UTF-8 on one line: control characters, line ends, marks that turn the direction of writing and code points that are no
// characters stand as \u001b, bytes that are no UTF-8 as \xff. More than about `most` bytes are cut between characters, with
// "..." behind them. A name from within a file is shown by ShownName (heed/shown_name.h).
std::string Printable(std::string_view text, std::size_t most = std::string_view::npos);

// The same of each line.
std::string PrintableLines(std::string_view text, std::size_t most = std::string_view::npos);

// The text as one word of a POSIX shell's command line: as it is where the shell takes it so, else in single quotes.
std::string ShellWord(const std::string& text);

}  // namespace heed::lab

#endif  // HEED_LAB_REPORT_PRINTABLE_H_
