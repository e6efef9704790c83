// What a study concludes.
#ifndef HEED_LAB_STUDY_FINDINGS_H_
#define HEED_LAB_STUDY_FINDINGS_H_

#include <string>
#include <vector>

#include "lab/runs/finding.h"
#include "lab/study/study.h"

namespace heed::lab {

// Whether the best model beats what only counts, runs of characters for the next one, frequencies for hidden ones: judged as
// one more contender, by seeds and blocks.
std::string WorthFinding(const StudyResult& result, Objective objective);
// Which model to take, or which cannot be told apart, in a sentence.
std::string ChoiceFinding(const StudyResult& result, Objective objective);
// Whether those who lead at the training length lead in longer windows too.
std::string LengthFinding(const StudyResult& result, Objective objective);
// What the study leaves open.
std::string LimitsFinding(const StudyResult& result);

// Whether attention without positions gets beyond the frequencies of characters, next to the best scheme. Empty where
// attention without positions did not learn to fill in hidden characters.
std::string OrderFinding(const StudyResult& result);

// What to type next: training the model that is to be taken, or, where this budget does not decide, the study of those in the
// running with four times the time.
std::string NextCommand(const StudyResult& result);

// What the page begins with: whether it is worth a model, and which.
std::string Answer(const StudyResult& result);

// Question by question; those that the chosen models do not answer are left out.
std::vector<Finding> Conclusion(const StudyResult& result);

}  // namespace heed::lab

#endif  // HEED_LAB_STUDY_FINDINGS_H_
