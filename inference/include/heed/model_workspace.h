// Scratch memory of a model's calls, so that a loop of calls allocates once.
#ifndef HEED_MODEL_WORKSPACE_H_
#define HEED_MODEL_WORKSPACE_H_

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "heed/view.h"
#include "heed/workspace.h"

namespace heed {

// Memory for a call in kept blocks: a call that needs no more memory than an earlier one allocates none. The engine keeps its
// own scratch for the calling thread (heed/thread_workspace.h). Two calls must not use it at the same time.
class ModelWorkspace {
 public:
  // The end of a frame returns all memory taken during its life. Frames end in the reverse order of their making.
  class Frame {
   public:
    explicit Frame(ModelWorkspace& workspace);
    ~Frame();
    Frame(const Frame&) = delete;
    Frame& operator=(const Frame&) = delete;

   private:
    ModelWorkspace& workspace_;
    std::size_t block_, used_;
  };

  // `count` uninitialised objects, 0 or more, aligned for vectors. Throws InvalidArgument for more than 2^62 bytes, and
  // std::bad_alloc.
  template <class T>
    requires std::is_trivially_copyable_v<T>
  T* Take(int64_t count) {
    return reinterpret_cast<T*>(TakeBytes(count, sizeof(T)));
  }
  // A contiguous uninitialised matrix.
  View<float, 2> TakeRows(int64_t rows, int64_t width);

  // Frees all memory. Do not call it while a frame lives.
  void Release();

 private:
  std::byte* TakeBytes(int64_t count, std::size_t element_bytes);

  std::vector<Workspace> blocks_;
  std::size_t block_ = 0, used_ = 0;  // the current block, and its bytes in use
  int frames_ = 0;
};

}  // namespace heed

#endif  // HEED_MODEL_WORKSPACE_H_
