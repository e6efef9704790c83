// The pictures of a study.
#ifndef HEED_LAB_STUDY_FIGURES_H_
#define HEED_LAB_STUDY_FIGURES_H_

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "lab/report/figure.h"
#include "lab/study/study.h"

namespace heed::lab {

// Validation loss at the training length, the best first, with the baselines behind.
Figure LossFigure(const StudyResult& result, Objective objective);

// Training loss over the steps: attention's schemes, then one curve an encoder. Those of a single model are left out.
std::vector<Figure> CurveFigures(const StudyResult& result, Objective objective);

// Validation loss of attention's schemes over the length of the evaluation; nothing without two lengths.
std::optional<Figure> LengthFigure(const StudyResult& result, Objective objective);

Figure SpeedFigure(const StudyResult& result);

// The encoding as the book draws it, and the biases of ALiBi. The commands are those of pages of their own below `folder`.
std::vector<Figure> StudyPositionFigures(const std::filesystem::path& folder);

// The picture of every other scheme that was studied, and what it says of a distance: as the run of the first seed has learnt
// it, with the next character as objective.
std::vector<Figure> SchemeFigures(const StudyResult& result);

}  // namespace heed::lab

#endif  // HEED_LAB_STUDY_FIGURES_H_
