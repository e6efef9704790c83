// Programs as text, one instruction after the other: how they cross from one language to another.
#ifndef HEED_PROGRAM_TEXT_H_
#define HEED_PROGRAM_TEXT_H_

#include <string>

#include "program/code.h"

namespace heed::program {

// "score;head;read real 0 1;add 0 2": instructions by name, each with the numbers of earlier ones; the last is the result.
// Constants and reads say their kind, reads their table, inner products both tables and how many indices are of the first.
std::string ToText(const Code& code);
// Throws InvalidArgument that names the instruction.
Code FromText(const std::string& text);

}  // namespace heed::program

#endif  // HEED_PROGRAM_TEXT_H_
