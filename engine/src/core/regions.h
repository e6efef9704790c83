// Which memory the arrays of a call touch, and whether an output shares any of it.
#ifndef HEED_CORE_REGIONS_H_
#define HEED_CORE_REGIONS_H_

#include <array>
#include <cstddef>
#include <cstdint>

#include "core/arrays.h"

namespace heed::core {

// An array of up to four dimensions by its bytes.
struct Region {
  const char* name;
  const std::byte* data;                // null: touches nothing
  std::array<int64_t, 4> extent, step;  // steps in bytes
  int64_t element_bytes;
  const std::byte *begin, *end;  // all bytes lie between
};

// Of an array that passed CheckPresent.
template <class Array>
Region RegionOf(const char* name, const Array& array) {
  const auto view = ExtentsOf(array);
  Region region{name, nullptr, {1, 1, 1, 1}, {}, view.element_bytes, nullptr, nullptr};
  if (!view.data || view.size() == 0) return region;
  region.data = region.begin = region.end = view.data;
  for (std::size_t r = 0; r < view.extent.size(); ++r) {
    region.extent[r] = view.extent[r];
    region.step[r] = view.stride[r] * view.element_bytes;
    const int64_t reach = (region.extent[r] - 1) * region.step[r];
    (reach < 0 ? region.begin : region.end) += reach;
  }
  region.end += view.element_bytes;
  return region;
}

// Whether any byte belongs to both. Exact, but for layouts that would take more than some ten thousand steps to tell apart,
// which count as sharing; arrays that lie apart or interleave by common strides take a few.
bool Share(const Region& a, const Region& b);

// The arrays of one call that touch any memory. Holds names and addresses only, and allocates nothing.
class Regions {
 public:
  // Of arrays that passed CheckPresent.
  template <class Array>
  void Read(const char* name, const Array& array) {
    Add(name, array, false);
  }
  template <class Array>
  void Write(const char* name, const Array& array) {
    Add(name, array, true);
  }
  // The same of arrays that are checked first: the memory behind them, their shape and, of outputs, distinct elements.
  template <class Array>
  void Read(const char* name, const Array& array, const decltype(ExtentsOf(array).extent)& shape, const char* meaning) {
    CheckPresent(name, array);
    CheckShape(name, array, shape, meaning);
    Read(name, array);
  }
  template <class Array>
  void Write(const char* name, const Array& array, const decltype(ExtentsOf(array).extent)& shape, const char* meaning) {
    CheckPresent(name, array);
    CheckShape(name, array, shape, meaning);
    CheckDistinct(name, array);
    Write(name, array);
  }
  // Throws InvalidArgument, naming both, when something written shares memory with anything else.
  void CheckApart() const;

 private:
  template <class Array>
  void Add(const char* name, const Array& array, bool written) {
    const Region region = RegionOf(name, array);
    if (!region.data) return;
    written_.at(count_) = written;
    regions_.at(count_++) = region;
  }

  static constexpr std::size_t kMost = 96;
  // Not made before they are needed: a small call would take longer to make them all than to compute.
  std::array<Region, kMost> regions_;
  std::array<bool, kMost> written_;
  std::size_t count_ = 0;
};

template <class A, class B>
void CheckApart(const char* output, const A& a, const char* other, const B& b) {
  Regions regions;
  regions.Write(output, a);
  regions.Read(other, b);
  regions.CheckApart();
}

}  // namespace heed::core

#endif  // HEED_CORE_REGIONS_H_
