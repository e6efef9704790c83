// Tables for a terminal.
#ifndef HEED_CLI_TABLE_H_
#define HEED_CLI_TABLE_H_

#include "lab/report/html.h"

namespace heed::cli {

// To stdout: the caption, then the first column to the left and the others to the right.
void PrintTable(const lab::Table& table);

}  // namespace heed::cli

#endif  // HEED_CLI_TABLE_H_
