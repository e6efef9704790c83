// Numbers of a vector as a tensor.
#ifndef HEED_LAB_DATA_VIEW_H_
#define HEED_LAB_DATA_VIEW_H_

#include <vector>

#include <ATen/core/Tensor.h>
#include <ATen/ops/from_blob.h>

namespace heed::lab {

// Over the vector's own memory, which must outlive the tensor and is not to be written.
template <class T>
at::Tensor View(const std::vector<T>& values, at::IntArrayRef shape) {
  return at::from_blob(const_cast<T*>(values.data()), shape, at::CppTypeToScalarType<T>::value);
}

}  // namespace heed::lab

#endif  // HEED_LAB_DATA_VIEW_H_
