// Words of a command line, for the command beside a figure.
#ifndef HEED_LAB_REPORT_SHELL_WORD_H_
#define HEED_LAB_REPORT_SHELL_WORD_H_

#include <string>

namespace heed::lab {

// The text as one word of a POSIX shell's command line: as it is where the shell takes it so, else in single quotes.
std::string ShellWord(const std::string& text);

}  // namespace heed::lab

#endif  // HEED_LAB_REPORT_SHELL_WORD_H_
