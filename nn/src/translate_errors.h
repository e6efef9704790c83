// heed's exceptions as those that PyTorch hands to Python.
#ifndef HEED_NN_SRC_TRANSLATE_ERRORS_H_
#define HEED_NN_SRC_TRANSLATE_ERRORS_H_

#include <c10/util/Exception.h>

#include "heed/error.h"

namespace heed::nn {

// Calls f. InvalidArgument arrives in Python as ValueError, every other error of heed as RuntimeError, with the same message.
template <class F>
auto TranslateErrors(const F& f) {
  try {
    return f();
  } catch (const InvalidArgument& error) {
    TORCH_CHECK_VALUE(false, error.what());
  } catch (const Error& error) {
    TORCH_CHECK(false, error.what());
  }
}

}  // namespace heed::nn

#endif  // HEED_NN_SRC_TRANSLATE_ERRORS_H_
