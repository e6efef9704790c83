// A table of parameters, such as one trainable number per head and offset.
#ifndef HEED_TABLE_H_
#define HEED_TABLE_H_

#include <memory>
#include <utility>
#include <variant>
#include <vector>

#include "heed/view.h"

namespace heed {

// Numbers of the caller, in float or double whatever the call computes in.
template <int Rank>
using Table = std::variant<View<const float, Rank>, View<const double, Rank>>;

// A table of one dimension, or one made of a vector, which it keeps.
struct KeptTable : Table<1> {
  using Table<1>::Table;
  KeptTable(const Table<1>& table) : Table<1>(table) {}
  KeptTable(std::vector<double> numbers) : kept_(std::make_shared<const std::vector<double>>(std::move(numbers))) {
    emplace<View<const double, 1>>(View<const double, 1>::Contiguous(kept_->data(), {static_cast<int64_t>(kept_->size())}));
  }

 private:
  std::shared_ptr<const std::vector<double>> kept_;
};

}  // namespace heed

#endif  // HEED_TABLE_H_
