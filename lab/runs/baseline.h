// Results without a trained model.
#ifndef HEED_LAB_RUNS_BASELINE_H_
#define HEED_LAB_RUNS_BASELINE_H_

#include <memory>
#include <string>
#include <vector>

namespace heed::lab {

struct KeptMethod;

// Fitted on the training part, its one setting chosen on the validation part, measured on the test part.
struct Baseline {
  std::string name = {};            // "last value", "ridge regression"
  std::string setting = {};         // that was chosen: "strength 0.01", "season of 52 steps"; empty where there is none
  std::string limits = {};          // what was left out to bound time and memory; empty: nothing
  std::vector<double> blocks = {};  // the loss on each block of the test part, in the unit of the models' losses
  double loss = 0;                  // the same on the whole part
  double validation = 0;            // the loss on the validation part, fitted without it
  double accuracy = 0;              // of a classification
  bool looks = true;                // at features, and not at past targets or frequencies alone
  std::shared_ptr<const KeptMethod> kept = {};  // to answer with; none where it cannot be kept

  // "ridge regression (strength 0.01)".
  std::string Label() const { return setting.empty() ? name : name + " (" + setting + ")"; }
  // "ridge regression (strength 0.01)", "the last value": within a sentence.
  std::string Phrase() const { return looks ? Label() : "the " + Label(); }
};

}  // namespace heed::lab

#endif  // HEED_LAB_RUNS_BASELINE_H_
