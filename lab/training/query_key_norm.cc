#include "lab/training/query_key_norm.h"

#include <utility>
#include <vector>

#include "heed/error.h"
#include "lab/training/options.h"

namespace heed::lab {
namespace {

constexpr std::pair<const char*, nn::QueryKeyNormKind> kNorms[] = {
    {"none", nn::QueryKeyNormKind::kNone}, {"l2", nn::QueryKeyNormKind::kL2}, {"rms", nn::QueryKeyNormKind::kRms}};

}  // namespace

std::vector<std::string> QueryKeyNormNames() {
  std::vector<std::string> names;
  for (const auto& [name, kind] : kNorms) names.emplace_back(name);
  return names;
}

nn::QueryKeyNormKind ParseQueryKeyNorm(const std::string& name) {
  std::string names;
  for (const auto& [known, kind] : kNorms) {
    if (name == known) return kind;
    names += (names.empty() ? "" : ", ") + std::string(known);
  }
  throw InvalidArgument("query_key_norm: '" + name + "' is unknown; expected one of " + names);
}

}  // namespace heed::lab
