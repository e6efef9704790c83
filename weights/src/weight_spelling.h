// A parameter of heed's as a table calls it.
#ifndef HEED_WEIGHTS_SRC_WEIGHT_SPELLING_H_
#define HEED_WEIGHTS_SRC_WEIGHT_SPELLING_H_

#include <set>
#include <string>
#include <vector>

#include "weight_names.h"
#include "weight_tables.h"

namespace heed {

// A module's parameters and buffers, and the layers and containers that hold them.
class ModulePaths {
 public:
  explicit ModulePaths(const std::vector<WeightTarget>& targets);
  bool Has(const std::string& path) const { return paths_.contains(path); }
  bool AttendsWithoutBias() const { return attends_ && !has_attention_bias_; }

 private:
  std::set<std::string> paths_;
  bool attends_ = false, has_attention_bias_ = false;
};

struct Spelling {
  std::string name;  // dotted, without a scope
  Layout layout = Layout::kSame;
  bool is_second_name = false;
};

// In the order of the table's rows, second names last; none for a target that the table has no place for.
std::vector<Spelling> SpellingsOf(const WeightTarget& target, const WeightTable& table, const ModulePaths& module);

// Whether the target is a bias of a block, or of a stack's last norm, whose attention has none while the table knows one switch
// for all of them.
bool IsSwitchedOff(const WeightTarget& target, const WeightTable& table, const ModulePaths& module);

}  // namespace heed

#endif  // HEED_WEIGHTS_SRC_WEIGHT_SPELLING_H_
