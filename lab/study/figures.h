// The pictures of a study.
#ifndef HEED_LAB_STUDY_FIGURES_H_
#define HEED_LAB_STUDY_FIGURES_H_

#include <optional>

#include "lab/report/figure.h"
#include "lab/study/study.h"

namespace heed::lab {

// Loss on the test part after equal time, the best first, with what only counts behind.
Figure ContestFigure(const StudyResult& result, Objective objective);

// Training loss over the share of the training that is done.
Figure CurveFigure(const StudyResult& result, Objective objective);

// Loss over the length of the windows; nothing where no model reaches two lengths.
std::optional<Figure> LengthFigure(const StudyResult& result, Objective objective);

}  // namespace heed::lab

#endif  // HEED_LAB_STUDY_FIGURES_H_
