// LibTorch's ProcessGroupGloo.hpp includes headers of Gloo, which its packages lack. This one stands in for each of them: it
// declares what is said there of Gloo's types; all of them live inside of LibTorch, and nothing here is ever instantiated.
#ifndef HEED_NN_SRC_GLOO_DECLARATIONS_H_
#define HEED_NN_SRC_GLOO_DECLARATIONS_H_

#include <chrono>
#include <string>
#include <vector>

namespace gloo {

class Context {
 public:
  void setTimeout(std::chrono::milliseconds timeout);
};

namespace rendezvous {

class Store {
 public:
  virtual ~Store();
  virtual void set(const std::string& key, const std::vector<char>& value) = 0;
  virtual std::vector<char> get(const std::string& key) = 0;
  virtual void wait(const std::vector<std::string>& keys) = 0;
  virtual void wait(const std::vector<std::string>& keys, const std::chrono::milliseconds& timeout) = 0;
};

}  // namespace rendezvous
namespace transport {

class Device;
class UnboundBuffer;

}  // namespace transport
}  // namespace gloo

#endif  // HEED_NN_SRC_GLOO_DECLARATIONS_H_
