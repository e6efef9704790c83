// How a function of the C header calls C++: exceptions become a status and a message, and all calls share threads.
#ifndef HEED_C_CALL_H_
#define HEED_C_CALL_H_

#include <exception>
#include <memory>
#include <new>
#include <string>

#include "heed/error.h"
#include "heed/executor.h"
#include "heed/heed.h"

namespace heed {

// The threads of all calls, see heed_set_threads. A call keeps those that it began with.
class CallThreads {
 public:
  CallThreads();
  Executor& executor() const { return pool_ ? *pool_ : ThreadPool::Default(); }

  static void Set(int threads);

 private:
  std::shared_ptr<ThreadPool> pool_;
};

// Keeps the message of a call that failed.
heed_status Failed(heed_status status, const char* what) noexcept;

template <class Call>
heed_status Guarded(const Call& call) noexcept {
  try {
    call();
    return HEED_OK;
  } catch (const InvalidArgument& error) {
    return Failed(HEED_INVALID_ARGUMENT, error.what());
  } catch (const FileError& error) {
    return Failed(HEED_FILE_ERROR, error.what());
  } catch (const std::bad_alloc&) {
    return Failed(HEED_OUT_OF_MEMORY, "out of memory");
  } catch (const std::exception& error) {
    return Failed(HEED_FAILED, error.what());
  } catch (...) {
    return Failed(HEED_FAILED, "an error of unknown kind");
  }
}

template <class Pointer>
void CheckGiven(const char* name, Pointer pointer) {
  if (pointer == nullptr) throw InvalidArgument(std::string(name) + ": NULL was passed");
}

// Of a struct that begins with its size.
template <class Arrays>
void CheckBegun(const char* name, const Arrays* arrays, const std::string& type) {
  CheckGiven(name, arrays);
  if (arrays->struct_bytes != sizeof(Arrays))
    throw InvalidArgument(std::string(name) + ": struct_bytes is not sizeof(" + type + "); begin with " + type + "_default()");
}

}  // namespace heed

#endif  // HEED_C_CALL_H_
