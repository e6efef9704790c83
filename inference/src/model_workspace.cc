#include "heed/model_workspace.h"

#include <algorithm>
#include <new>
#include <utility>

#include "heed/error.h"

namespace heed {
namespace {

constexpr std::size_t kLeastBlock = std::size_t{1} << 16;

std::size_t SizeOfAll(const std::vector<Workspace>& blocks) {
  std::size_t bytes = 0;
  for (const Workspace& block : blocks) bytes += block.size();
  return bytes;
}

}  // namespace

ModelWorkspace::Frame::Frame(ModelWorkspace& workspace)
    : workspace_(workspace), block_(workspace.block_), used_(workspace.used_) {
  ++workspace_.frames_;
}

ModelWorkspace::Frame::~Frame() {
  workspace_.block_ = block_, workspace_.used_ = used_;
  if (--workspace_.frames_ > 0 || workspace_.blocks_.size() < 2) return;
  // One block of the size of all, so that the next call has room without looking for more.
  const std::size_t bytes = SizeOfAll(workspace_.blocks_);
  workspace_.Release();
  try {
    workspace_.blocks_.resize(1);
    workspace_.blocks_.front().Reserve(bytes);
  } catch (const std::bad_alloc&) {
    workspace_.Release();
  }
}

View<float, 2> ModelWorkspace::TakeRows(int64_t rows, int64_t width) {
  int64_t count = 0;
  if (__builtin_mul_overflow(rows, width, &count)) throw InvalidArgument("workspace: more numbers than memory can have");
  return View<float, 2>::Contiguous(Take<float>(count), {rows, width});
}

void ModelWorkspace::Release() {
  blocks_.clear();
  block_ = used_ = 0;
}

std::byte* ModelWorkspace::TakeBytes(int64_t count, std::size_t element_bytes) {
  constexpr std::size_t kAlign = Workspace::kAlignment, kMost = std::size_t{1} << 62;
  if (count < 0 || static_cast<std::size_t>(count) > kMost / element_bytes)
    throw InvalidArgument("workspace: more numbers than memory can have");
  const std::size_t bytes = (static_cast<std::size_t>(count) * element_bytes + kAlign) / kAlign * kAlign;
  while (block_ < blocks_.size() && blocks_[block_].size() - used_ < bytes) ++block_, used_ = 0;
  if (block_ == blocks_.size()) {
    Workspace block(std::max({bytes, kLeastBlock, SizeOfAll(blocks_)}));
    blocks_.push_back(std::move(block));
    used_ = 0;
  }
  std::byte* const place = blocks_[block_].data() + used_;
  used_ += bytes;
  return place;
}

}  // namespace heed
