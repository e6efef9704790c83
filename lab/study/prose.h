// The texts of a study, study_prose.txt.
#ifndef HEED_LAB_STUDY_PROSE_H_
#define HEED_LAB_STUDY_PROSE_H_

#include "lab/report/prose.h"

namespace heed::lab {

const Prose& TellStudy();

}  // namespace heed::lab

#endif  // HEED_LAB_STUDY_PROSE_H_
