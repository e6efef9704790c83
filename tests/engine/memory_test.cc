// No access outside the described extents, workspace as announced, memory linear in the sequence length.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <memory>

#include "heed/attention.h"
#include "option_at_length.h"
#include "problem.h"

namespace heed {
namespace {

// An array that ends right before, or begins right after, a page without access: one element too far is a crash, also in
// vector code that address sanitizers do not see.
class GuardedArray {
 public:
  GuardedArray(const std::vector<float>& values, bool at_end) {
    const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    const size_t bytes = values.size() * sizeof(float);
    const size_t body = (bytes + page - 1) / page * page;
    length_ = body + 2 * page;
    base_ = static_cast<std::byte*>(mmap(nullptr, length_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    mprotect(base_, page, PROT_NONE);
    mprotect(base_ + page + body, page, PROT_NONE);
    data_ = reinterpret_cast<float*>(base_ + page + (at_end ? body - bytes : 0));
    if (bytes != 0) std::memcpy(data_, values.data(), bytes);
  }
  ~GuardedArray() { munmap(base_, length_); }
  GuardedArray(const GuardedArray&) = delete;
  GuardedArray& operator=(const GuardedArray&) = delete;
  float* data() const { return data_; }

 private:
  std::byte* base_;
  size_t length_;
  float* data_;
};

class GuardPages : public ::testing::TestWithParam<std::string> {};

TEST_P(GuardPages, AreNeverTouched) {
  UseTarget(GetParam());
  SerialExecutor serial;
  for (const Shape& shape : {Shape{1, 2, 1, 7, 9, 5, 3}, Shape{1, 1, 1, 65, 67, 17, 33}, Shape{2, 2, 2, 64, 64, 16, 16}})
    for (bool at_end : {false, true}) {
      Problem<float> problem(shape);
      const GuardedArray q(problem.q, at_end), k(problem.k, at_end), v(problem.v, at_end), d_out(problem.d_out, at_end);
      const GuardedArray out(problem.out, at_end), lse(problem.lse, at_end);
      const GuardedArray d_q(problem.q, at_end), d_k(problem.k, at_end), d_v(problem.v, at_end);
      const auto of = [](const GuardedArray& a, const View<float, 4>& like) {
        return View<float, 4>::Contiguous(a.data(), like.extent);
      };
      const auto queries = problem.Queries(problem.q), keys = problem.Keys(problem.k), values = problem.Values(problem.v);
      const auto outputs = problem.Outputs(problem.out);
      Attention attention;
      attention.causal = Causal::kTopLeft;
      attention.dropout = {0.1, 1, 0};
      const auto lse_view = View<float, 3>::Contiguous(lse.data(), problem.Lse().extent);
      Forward(attention, of(q, queries), of(k, keys), of(v, values), of(out, outputs), lse_view, problem.workspace, serial);
      Backward(attention, of(q, queries), of(k, keys), of(v, values), of(out, outputs), lse_view, of(d_out, outputs),
               of(d_q, queries), of(d_k, keys), of(d_v, values), {}, problem.workspace, serial);
      problem.Run(attention, serial);
      EXPECT_EQ(std::memcmp(out.data(), problem.out.data(), problem.out.size() * sizeof(float)), 0);
      EXPECT_EQ(std::memcmp(d_k.data(), problem.d_k.data(), problem.d_k.size() * sizeof(float)), 0);
    }
  UseTarget("");
}

INSTANTIATE_TEST_SUITE_P(Targets, GuardPages, ::testing::ValuesIn(SupportedTargets()),
                         [](const auto& info) { return info.param; });

TEST(WorkspaceQuery, IsWhatCallsUse) {
  const Shape shape{2, 4, 2, 300, 1500, 32, 16};
  const std::vector<float> table(4 * 101, 0.1f);
  for (bool bias : {false, true})
    for (int threads : {1, 2, 8}) {
      Attention attention;
      if (bias) attention.relative_bias = RelativeBias{View<const float, 2>::Contiguous(table.data(), {4, 101})};
      ThreadPool pool(threads);
      Problem<float> problem(shape);
      problem.Forward(attention, pool);
      EXPECT_EQ(problem.workspace.size(), ForwardWorkspace(attention, shape, sizeof(float), threads));
      problem.workspace.Release();
      problem.Backward(attention, pool);
      EXPECT_EQ(problem.workspace.size(), BackwardWorkspace(attention, shape, sizeof(float), threads));
    }
}

// One score matrix of 16384 x 16384 floats would be 1 GiB. Both passes with all their arrays (q, k, v, out and the gradients
// of each) stay below 200 MiB, whatever is asked for, and grow with the length.
TEST(WorkspaceQuery, GrowsLinearlyWithEveryOption) {
  const auto bytes = [](const reference::Option& option, int64_t n) {
    const OptionAtLength call(option, n, 64);
    return static_cast<double>(ForwardWorkspace(call.attention(), call.shape(), 4, 2) +
                               BackwardWorkspace(call.attention(), call.shape(), 4, 2) +
                               8 * static_cast<std::size_t>(n) * 64 * 4);
  };
  for (const reference::Option& option : reference::Options()) {
    EXPECT_LE(bytes(option, 16384) / bytes(option, 4096), 4.3) << option.name;
    EXPECT_LE(bytes(option, 16384), 200.0 * 1024 * 1024) << option.name;
  }
}

// A table with a row for every offset is the caller's own 2n rows; what the kernels add to it grows as it does.
TEST(WorkspaceQuery, GrowsLinearlyWithUnclippedTables) {
  const auto bytes = [](int64_t n) {
    const Shape shape{1, 1, 1, n, n, 64, 64};
    const View<const float, 2> table = View<const float, 2>::Contiguous(nullptr, {2 * n - 1, 64});
    Attention attention;
    attention.content_bias.emplace();
    attention.content_bias->keys = attention.content_bias->values = attention.content_bias->queries = table;
    attention.relative_bias = RelativeBias{View<const float, 2>::Contiguous(nullptr, {1, 2 * n - 1})};
    return static_cast<double>(ForwardWorkspace(attention, shape, 4, 2) + BackwardWorkspace(attention, shape, 4, 2));
  };
  EXPECT_LE(bytes(16384) / bytes(4096), 4.3);
}

// A dense bias that heads and batch rows share is collected in a few copies, not one for each of them.
TEST(WorkspaceQuery, HoldsAFewCopiesOfADenseBias) {
  const int64_t n = 1024;
  Attention attention;
  attention.bias = Bias{View<const float, 4>::Contiguous(nullptr, {1, 1, n, n})};
  const auto bytes = [&](int64_t batch) {
    return static_cast<double>(BackwardWorkspace(attention, {batch, 8, 8, n, n, 64, 64}, 4, 2));
  };
  EXPECT_LE(bytes(16) - bytes(1), 4.0 * n * n * sizeof(float));
}

}  // namespace
}  // namespace heed
