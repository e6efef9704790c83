#ifndef HEED_TESTS_GOLDEN_FOLDER_H_
#define HEED_TESTS_GOLDEN_FOLDER_H_

#include <string>

namespace heed {

// Where the golden cases lie, with a slash at its end; the folder need not exist.
std::string GoldenFolder();

}  // namespace heed

#endif  // HEED_TESTS_GOLDEN_FOLDER_H_
