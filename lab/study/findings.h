// The conclusions of a study.
#ifndef HEED_LAB_STUDY_FINDINGS_H_
#define HEED_LAB_STUDY_FINDINGS_H_

#include <optional>
#include <string>
#include <vector>

#include "lab/runs/finding.h"
#include "lab/runs/outlook.h"
#include "lab/runs/verdict.h"
#include "lab/study/study.h"

namespace heed::lab {

// The contender that is to be taken.
const Entry& TakenOf(const ContestResult& contest);

// How the model that is to be taken and the best baseline compare, as the best of all models that were trained.
struct Worth : Compared {
  // Of the model: "ahead" or "behind" the baseline; "not yet", where it is behind and a longer training may change that;
  // "open", where chance may; "disputed", where it is ahead and another baseline is better.
  std::string answer;
  std::optional<Overtaking> later;  // where it is "not yet"
};
Worth WorthOf(const StudiedTask& task);
// Whether that model is worth training. `worth`: of the task.
std::string WorthFinding(const StudyResult& result, const StudiedTask& task, const Worth& worth);
// Which model to take, at what price, and which are as good.
std::string ChoiceFinding(const StudyResult& result, const StudiedTask& task, const Worth& worth);
// Whether those who lead at the training length lead in longer windows too; empty where there are none.
std::string LengthFinding(const StudyResult& result, const StudiedTask& task);
// What the study leaves open.
std::string LimitsFinding(const StudyResult& result);

// Whether attention without positions gets beyond the frequencies of characters at filling in hidden ones, next to the best
// scheme. Empty where attention without positions did not learn that.
std::string OrderFinding(const StudyResult& result);

// What to type to use what folder/model holds.
std::string UseCommand(const StudyResult& result);
// What to type where this budget does not decide and more training helps: the study of those in the running with four times the
// time; else empty.
std::string NextCommand(const StudyResult& result);

// Which model to take with --for, see OutlookFinding; empty without.
std::string LaterFinding(const StudyResult& result, const StudiedTask& task);
// Whether it is worth a model, and which, with --for too; of the first task it is what the page begins with.
std::string AnswerTo(const StudyResult& result, const StudiedTask& task);
std::string Answer(const StudyResult& result);

// Question by question; those that the chosen models do not answer are left out.
std::vector<Finding> Conclusion(const StudyResult& result);

}  // namespace heed::lab

#endif  // HEED_LAB_STUDY_FINDINGS_H_
