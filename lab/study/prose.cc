#include "lab/study/prose.h"

#include "study_prose.h"

namespace heed::lab {

const Prose& TellStudy() {
  static const Prose prose(text::kStudyProseTxt);
  return prose;
}

}  // namespace heed::lab
