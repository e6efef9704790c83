// Arrays beside pages without access: one byte too far is a crash, also in vector code that address sanitizers do not see.
#ifndef HEED_TESTS_ENGINE_GUARDED_MEMORY_H_
#define HEED_TESTS_ENGINE_GUARDED_MEMORY_H_

#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstring>
#include <map>
#include <string>
#include <type_traits>
#include <vector>

#include "core/regions.h"

namespace heed {

// Which side of an array touches a page without access.
enum class Side { kBegin, kEnd };

// Calls visit(address) for every element of an array, in the order of its indices.
template <class Visit>
void ForEachElement(const core::Region& region, const Visit& visit) {
  if (!region.data) return;
  const auto& [extent, step] = std::pair{region.extent, region.step};
  for (int64_t a = 0; a < extent[0]; ++a)
    for (int64_t b = 0; b < extent[1]; ++b)
      for (int64_t c = 0; c < extent[2]; ++c)
        for (int64_t d = 0; d < extent[3]; ++d)
          visit(const_cast<std::byte*>(region.data) + a * step[0] + b * step[1] + c * step[2] + d * step[3]);
}

// Blocks of memory between such pages, used again by the next call.
class GuardedMemory {
 public:
  explicit GuardedMemory(Side side) : side_(side) {}
  ~GuardedMemory() {
    for (const auto& [pages, blocks] : blocks_)
      for (std::byte* block : blocks) munmap(block - kPage, (pages + 2) * kPage);
  }
  GuardedMemory(const GuardedMemory&) = delete;
  GuardedMemory& operator=(const GuardedMemory&) = delete;

  // Moves an array's elements here, strides and all. What lies between them becomes 0xFF: NaN in every type of numbers.
  template <class View>
  void Adopt(View& view) {
    const core::Region from = core::RegionOf("", view);
    const auto bytes = static_cast<std::size_t>(from.end - from.begin);
    std::byte* const to = Place(bytes) - (from.begin - from.data);
    std::byte* const begin = to + (from.begin - from.data);
    using T = std::remove_reference_t<decltype(*view.data)>;
    if (IsDense(from) && bytes > 0) {
      std::memcpy(begin, from.begin, bytes);
    } else {
      std::memset(begin, 0xFF, bytes);
      ForEachElement(from, [&](const std::byte* at) { std::memcpy(to + (at - from.data), at, sizeof(T)); });
    }
    view.data = reinterpret_cast<T*>(to);
    adopted_.push_back(core::RegionOf("", view));
  }

  // Whether what lies between the elements is as it was.
  bool GapsAreUntouched() const {
    for (const core::Region& region : adopted_) {
      if (IsDense(region)) continue;
      std::vector<bool> element(static_cast<std::size_t>(region.end - region.begin));
      ForEachElement(region, [&](const std::byte* at) {
        for (int64_t x = 0; x < region.element_bytes; ++x) element[static_cast<std::size_t>(at - region.begin + x)] = true;
      });
      for (std::size_t x = 0; x < element.size(); ++x)
        if (!element[x] && region.begin[x] != std::byte{0xFF}) return false;
    }
    return true;
  }

  // Takes all blocks back.
  void Clear() {
    adopted_.clear();
    used_.clear();
  }

 private:
  inline static const auto kPage = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));

  // Whether an output or an input without repeats has nothing between its elements.
  static bool IsDense(const core::Region& region) {
    int64_t elements = region.data ? region.element_bytes : 0;
    for (int64_t extent : region.extent) elements *= extent;
    for (std::size_t r = 0; r < 4; ++r)
      if (region.extent[r] > 1 && region.step[r] == 0) return false;
    return elements == region.end - region.begin;
  }

  std::byte* Place(std::size_t bytes) {
    const std::size_t pages = (bytes + kPage - 1) / kPage;
    auto& blocks = blocks_[pages];
    std::size_t& used = used_[pages];
    if (used == blocks.size()) blocks.push_back(Map(pages));
    std::byte* const body = blocks[used++];
    // An array without elements has no byte to begin with: it lies at a page without access.
    return side_ == Side::kEnd || bytes == 0 ? body + pages * kPage - bytes : body;
  }

  static std::byte* Map(std::size_t pages) {
    void* const base = mmap(nullptr, (pages + 2) * kPage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    std::byte* const body = static_cast<std::byte*>(base) + kPage;
    if (pages > 0) mprotect(body, pages * kPage, PROT_READ | PROT_WRITE);
    return body;
  }

  const Side side_;
  std::map<std::size_t, std::vector<std::byte*>> blocks_;  // by their number of pages
  std::map<std::size_t, std::size_t> used_;
  std::vector<core::Region> adopted_;
};

// Says on a crash what was running.
class CrashNote {
 public:
  explicit CrashNote(const std::string& name) {
    text_ = name + ": touched a page without access\n";
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    signal(SIGSEGV, [](int number) {
      if (write(STDERR_FILENO, text_.data(), text_.size()) < 0) _exit(1);
      signal(number, SIG_DFL);
    });
#endif
  }
  ~CrashNote() {
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    signal(SIGSEGV, SIG_DFL);
#endif
  }
  CrashNote(const CrashNote&) = delete;
  CrashNote& operator=(const CrashNote&) = delete;

 private:
  inline static std::string text_;
};

}  // namespace heed

#endif  // HEED_TESTS_ENGINE_GUARDED_MEMORY_H_
