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

// Numbers that a call takes and gives back, in blocks that are kept: once a call has been made, those that need no more memory
// allocate none. The engine keeps scratch of its own for the calling thread (heed/thread_workspace.h). Not safe for use by two
// calls at the same time.
class ModelWorkspace {
 public:
  // What is taken while a frame lives is given back when it ends. Frames end in the opposite order of their making.
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

  // `count` objects, 0 or more, which hold anything, aligned for vectors. Throws InvalidArgument where their bytes are beyond
  // 2^62, and std::bad_alloc.
  template <class T>
    requires std::is_trivially_copyable_v<T>
  T* Take(int64_t count) {
    return reinterpret_cast<T*>(TakeBytes(count, sizeof(T)));
  }
  // A matrix of them in one piece.
  View<float, 2> TakeRows(int64_t rows, int64_t width);

  // Gives all memory back; not while a frame lives.
  void Release();

 private:
  std::byte* TakeBytes(int64_t count, std::size_t element_bytes);

  std::vector<Workspace> blocks_;
  std::size_t block_ = 0, used_ = 0;  // the block that numbers are taken from, and bytes that are taken of it
  int frames_ = 0;
};

}  // namespace heed

#endif  // HEED_MODEL_WORKSPACE_H_
