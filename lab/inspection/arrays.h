// Exact attention weights for other programs: NPY files and a JSON file that says what they are.
#ifndef HEED_LAB_INSPECTION_ARRAYS_H_
#define HEED_LAB_INSPECTION_ARRAYS_H_

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "lab/inspection/inspection.h"

namespace heed::lab {

// In `folder`, made where it is missing, each file written beside and renamed:
//
//   attention-layerL.npy  float32 [heads, tokens, tokens] for each layer L of the selection
//   statistics.npy        float32 [layers, heads, 4, tokens]: entropy (nats), largest weight, mean distance (tokens), weight on
//                         the first token, of each query
//   arrays.json           names, shapes, layers, heads, the text or the labels of steps; written last
//
// Returns the files. Throws FileError, and Interruption on Ctrl-C.
std::vector<std::filesystem::path> WriteArrays(const Reading& reading, const HeadSelection& selection,
                                               const std::filesystem::path& folder,
                                               const std::function<void(int64_t done)>& on_head = {});

}  // namespace heed::lab

#endif  // HEED_LAB_INSPECTION_ARRAYS_H_
