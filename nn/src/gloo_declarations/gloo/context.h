// LibTorch's ProcessGroupGloo.hpp includes headers of Gloo, which its packages lack. This folder declares what that header
// says of Gloo's types; all of them live inside of LibTorch, and nothing here is ever instantiated.
#ifndef HEED_NN_SRC_GLOO_DECLARATIONS_GLOO_CONTEXT_H_
#define HEED_NN_SRC_GLOO_DECLARATIONS_GLOO_CONTEXT_H_

#include <chrono>

namespace gloo {

class Context {
 public:
  void setTimeout(std::chrono::milliseconds timeout);
};

}  // namespace gloo

#endif  // HEED_NN_SRC_GLOO_DECLARATIONS_GLOO_CONTEXT_H_
