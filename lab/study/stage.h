// Many training runs, side by side.
#ifndef HEED_LAB_STUDY_STAGE_H_
#define HEED_LAB_STUDY_STAGE_H_

#include <string>
#include <vector>

#include "lab/data/corpus.h"
#include "lab/study/run.h"
#include "lab/study/run_store.h"

namespace heed::lab {

// Every model with every seed of the options, in memory order [model][seed]. Each run computes with one thread and
// options.threads runs go on at a time: for models this small that takes less time than several threads within an operation,
// and the results are the same bits for any number of threads. Runs that the store holds are not repeated, finished ones are
// kept at once. One progress bar on stderr. Throws the first error of a run, with the run's name before what a Divergence says,
// and Interruption on Ctrl-C.
std::vector<std::vector<StudyRun>> TrainStage(const std::string& what, const Corpus& corpus, const StudyOptions& options,
                                              const std::vector<StudyModel>& models, const RunStore& store);

}  // namespace heed::lab

#endif  // HEED_LAB_STUDY_STAGE_H_
