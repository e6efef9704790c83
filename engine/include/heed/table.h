// A table of parameters, such as one trainable number per head and offset.
#ifndef HEED_TABLE_H_
#define HEED_TABLE_H_

#include <memory>
#include <utility>
#include <variant>
#include <vector>

#include "heed/view.h"

namespace heed {

template <int Rank>
using TableView = std::variant<View<const float, Rank>, View<const double, Rank>>;

// Numbers of the caller, in float or double whatever the call computes in; the table owns nothing. One of a single dimension
// may be made of a vector instead, which it keeps.
template <int Rank>
struct Table : TableView<Rank> {
  using TableView<Rank>::TableView;
  Table(std::vector<double> numbers)
    requires(Rank == 1)
      : kept_(std::make_shared<const std::vector<double>>(std::move(numbers))) {
    this->template emplace<View<const double, 1>>(
        View<const double, 1>::Contiguous(kept_->data(), {static_cast<int64_t>(kept_->size())}));
  }

 private:
  std::shared_ptr<const std::vector<double>> kept_;
};

}  // namespace heed

#endif  // HEED_TABLE_H_
