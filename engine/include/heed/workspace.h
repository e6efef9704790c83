// Scratch memory kept between calls, so that a loop of calls allocates once.
#ifndef HEED_WORKSPACE_H_
#define HEED_WORKSPACE_H_

#include <cstddef>
#include <memory>

namespace heed {

// One block of memory, aligned for vectors. It grows when a call needs more and shrinks only by Release. Two calls must not use
// it at the same time.
class Workspace {
 public:
  Workspace() = default;
  explicit Workspace(std::size_t bytes) { Reserve(bytes); }

  // Makes at least `bytes` available; growing loses earlier contents. Throws std::bad_alloc.
  void Reserve(std::size_t bytes);
  void Release();

  std::byte* data() const { return data_.get(); }
  std::size_t size() const { return size_; }

  static constexpr std::size_t kAlignment = 64;  // bytes: one cache line, one AVX-512 vector

 private:
  struct Free {
    void operator()(std::byte* p) const;
  };
  std::unique_ptr<std::byte[], Free> data_;
  std::size_t size_ = 0;
};

}  // namespace heed

#endif  // HEED_WORKSPACE_H_
