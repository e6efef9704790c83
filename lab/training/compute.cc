#include "lab/training/compute.h"

#include <ATen/Parallel.h>
#include <c10/util/Exception.h>

namespace heed::lab {

void ComputeWith(int threads) { at::set_num_threads(threads); }
int ComputeThreads() { return at::get_num_threads(); }

std::optional<ComputeError> AsComputeError(const std::exception& error) {
  const auto* own = dynamic_cast<const c10::Error*>(&error);
  if (own == nullptr) return std::nullopt;
  // There is no type for memory of the CPU that cannot be had.
  const std::string text = own->what_without_backtrace();
  const auto says = [&text](const char* words) { return text.find(words) != std::string::npos; };
  return ComputeError{says("DefaultCPUAllocator") || says("calculation overflowed"), text};
}

}  // namespace heed::lab
