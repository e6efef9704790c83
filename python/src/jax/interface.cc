// What Python asks for at once, without a program of XLA's: tables of numbers, checks, and what computes. Functions return 0,
// or the kind of what heed_jax_message then says.
#include <algorithm>
#include <array>
#include <cstdint>
#include <string>

#include "call.h"
#include "heed/attention.h"
#include "heed/error.h"
#include "heed/positions.h"
#include "heed/rotary.h"
#include "options.h"
#include "threads.h"

#define HEED_JAX_API __attribute__((visibility("default")))

namespace heed::jax {
namespace {

struct Accepted {};

// Ends a call where its checks are over and its work would begin: the engine asks how many tasks can run at once.
class Examiner final : public Executor {
 public:
  void ParallelFor(int64_t, FunctionRef<void(int64_t)>) override { throw Accepted(); }
  int concurrency() const override { throw Accepted(); }
};

// An output for a call that ends before it is written. It lies beyond the addresses that a process can have, so that it shares
// memory with no input.
template <class T>
View<T, 4> NowhereOutput(const View<const T, 4>& query, const View<const T, 4>& value) {
  const std::array<int64_t, 4> extent{query.extent[0], query.extent[1], query.extent[2], value.extent[3]};
  // NOLINTNEXTLINE(performance-no-int-to-ptr): nothing is read or written there
  return View<T, 4>::Contiguous(reinterpret_cast<T*>(uintptr_t{1} << 60), extent);
}

template <class T>
void Examine(Call& call) {
  const View<const T, 4> query = call.Tokens<const T>("query"), value = call.Tokens<const T>("value");
  Workspace workspace;
  Examiner examiner;
  try {
    Forward<T>(AttentionOf<Accum<T>>(call), query, call.Tokens<const T>("key"), value, NowhereOutput<T>(query, value), {},
               workspace, examiner);
  } catch (const Accepted&) {
    return;
  }
}

}  // namespace
}  // namespace heed::jax

extern "C" {

HEED_JAX_API const char* heed_jax_message() { return heed::jax::Message().c_str(); }

HEED_JAX_API const char* heed_jax_version() { return HEED_VERSION; }

// That of the headers which the library was compiled with.
HEED_JAX_API void heed_jax_interface_version(int* major, int* minor) {
  *major = XLA_FFI_API_MAJOR;
  *minor = XLA_FFI_API_MINOR;
}

// Whether a call of attention would be refused for what is known of it without the numbers in its arrays.
HEED_JAX_API int heed_jax_check(const char* operands, const char* settings) {
  return heed::jax::Told([&] {
    heed::jax::Call call(operands, settings);
    heed::jax::WithElementType(call.Find("query")->type, [&]<class T>(T) { heed::jax::Examine<T>(call); });
  });
}

HEED_JAX_API int heed_jax_set_threads(int threads) {
  return heed::jax::Told([&] { heed::jax::SetThreads(threads); });
}

HEED_JAX_API int heed_jax_threads() { return heed::jax::SharedThreads()->concurrency(); }

HEED_JAX_API void heed_jax_release_workspaces() { heed::jax::ReleaseWorkspaces(); }

// Names separated by commas, best first.
HEED_JAX_API const char* heed_jax_targets() {
  static const std::string names = [] {
    std::string list;
    for (const std::string& name : heed::SupportedTargets()) list += (list.empty() ? "" : ",") + name;
    return list;
  }();
  return names.c_str();
}

// slopes [heads]
HEED_JAX_API int heed_jax_alibi_slopes(int64_t heads, double* slopes) {
  return heed::jax::Told([&] { std::ranges::copy(heed::AlibiSlopes(heads), slopes); });
}

// buckets_of_offsets [2 * reach + 1]
HEED_JAX_API int heed_jax_t5_buckets(int64_t reach, int64_t buckets, int64_t max_distance, int bidirectional,
                                     int64_t* buckets_of_offsets) {
  return heed::jax::Told([&] {
    const auto view = heed::View<int64_t, 1>::Contiguous(buckets_of_offsets, {2 * reach + 1});
    heed::T5Buckets({buckets, max_distance, bidirectional != 0}, reach, view);
  });
}

// frequencies [rotary_dim / 2], and what multiplies cosines and sines. length: see heed::ComputeRotaryFrequencies.
HEED_JAX_API int heed_jax_rotary_frequencies(const char* settings, int64_t length, double* frequencies,
                                             double* attention_factor) {
  return heed::jax::Told([&] {
    const heed::RotaryFrequencies found =
        heed::ComputeRotaryFrequencies(heed::jax::RotaryOptionsOf(heed::jax::Settings(settings)), length);
    std::ranges::copy(found.values, frequencies);
    *attention_factor = found.attention_factor;
  });
}

}  // extern "C"
