// The reports of a training run.
#ifndef HEED_LAB_TRAINING_METRICS_H_
#define HEED_LAB_TRAINING_METRICS_H_

#include <cstdint>

namespace heed::lab {

struct Metrics {
  int64_t step;
  double train_loss;         // mean over the steps since the previous report, nats per predicted character
  double val_loss;           // mean over the whole validation split
  double tokens_per_second;  // of training alone, since the previous report or the start of the process
};

}  // namespace heed::lab

#endif  // HEED_LAB_TRAINING_METRICS_H_
