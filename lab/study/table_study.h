// The models of a study of labelled sequences.
#ifndef HEED_LAB_STUDY_TABLE_STUDY_H_
#define HEED_LAB_STUDY_TABLE_STUDY_H_

#include <string>
#include <vector>

#include "lab/runs/measure.h"
#include "lab/series/batches.h"
#include "lab/series/range.h"
#include "lab/study/options.h"

namespace heed::lab {

SeriesCut CutOf(const StudyOptions& options);

// "loss" on the test part: nats, or the mean squared error in the target's own units; of a classification "accuracy"; in the
// same units "validation_loss".
std::vector<Column> TableColumns(bool classifies, const std::string& target = {});

// Which columns leave the range of the training part in the test part, how far and how many; empty where none does.
std::string DriftFinding(const std::vector<SeriesRange>& left);

}  // namespace heed::lab

#endif  // HEED_LAB_STUDY_TABLE_STUDY_H_
