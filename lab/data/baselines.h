// Losses that need no model.
#ifndef HEED_LAB_DATA_BASELINES_H_
#define HEED_LAB_DATA_BASELINES_H_

#include "lab/data/corpus.h"

namespace heed::lab {

// In nats per character, on the validation text by the counts of the training text.
struct Baselines {
  double frequencies = 0;         // each character by its frequency
  double previous_character = 0;  // each character by how often it followed the one before
};
Baselines CountBaselines(const Corpus& corpus);

}  // namespace heed::lab

#endif  // HEED_LAB_DATA_BASELINES_H_
