// Reverse mode: the gradient of a program as a program.
#ifndef HEED_PROGRAM_DERIVATIVE_H_
#define HEED_PROGRAM_DERIVATIVE_H_

#include <vector>

#include "program/code.h"

namespace heed::program {

// Adds to `builder` what turns `gradient`, that of instruction `result`, into the gradients of `targets`. What targets are made
// of is not looked into. Returns one instruction for each target, -1 where the result does not depend on it.
std::vector<int> Differentiate(CodeBuilder& builder, int result, int gradient, const std::vector<int>& targets);

}  // namespace heed::program

#endif  // HEED_PROGRAM_DERIVATIVE_H_
