// One step of decoding for one head: a state read and written once (read twice where it is corrected), for every SIMD target.
#include <cmath>
#include <type_traits>

#include "mixers/run.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "mixers/step.cc"
#include "heed/portable_math.h"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// As many columns of the state and of the output as d has lanes, from `column` on.
template <class D, class T>
void StepColumns(D d, const mixers::StepCall<T>& call, int64_t b, int64_t h, int64_t column, T* row) {
  const LinearStep<T>& step = call.step;
  const int64_t dim = step.q.extent[2], values = step.v.extent[2], lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto decay = hn::Set(d, step.decay.present() ? static_cast<T>(portable::Exp(double{step.decay(b, h)})) : T{1});
  const auto at = [&](int64_t i) { return &call.state(b, h, i, 0) + column; };

  // The column that normalises adds keys alone.
  for (int64_t c = 0; c < lanes; ++c) row[c] = column + c < values ? step.v(b, h, column + c) : T{1};
  auto added = hn::Load(d, row);
  if (step.beta.present()) {
    auto held = hn::Zero(d);
    for (int64_t i = 0; i < dim; ++i) held = hn::MulAdd(hn::Set(d, step.k(b, h, i)), hn::LoadU(d, at(i)), held);
    added = hn::Mul(hn::Set(d, step.beta(b, h)), hn::NegMulAdd(decay, held, added));
  }
  auto out = hn::Zero(d);
  for (int64_t i = 0; i < dim; ++i) {
    const auto now = hn::MulAdd(hn::Set(d, step.k(b, h, i)), added, hn::Mul(decay, hn::LoadU(d, at(i))));
    hn::StoreU(now, d, at(i));
    out = hn::MulAdd(hn::Set(d, step.q(b, h, i)), now, out);
  }
  hn::Store(out, d, row);
  for (int64_t c = 0; c < lanes && column + c < values; ++c) call.out(b, h, column + c) = row[c];
}

template <class T>
void StepOf(const mixers::StepCall<T>& call, int64_t b, int64_t h) {
  const hn::CappedTag<T, mixers::kQuantum> d;
  const hn::CappedTag<T, 1> one;
  alignas(64) T row[mixers::kQuantum] = {};
  const int64_t columns = call.state.extent[3], values = call.step.v.extent[2], lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t column = 0;
  for (; column + lanes <= values; column += lanes) StepColumns(d, call, b, h, column, row);
  for (; column < columns; ++column) StepColumns(one, call, b, h, column, row);
  // The last of them was the sum of weights.
  for (int64_t c = 0; c < values && columns > values; ++c) call.out(b, h, c) = row[0] == 0 ? T{0} : call.out(b, h, c) / row[0];
}

void StepF32(const mixers::StepCall<float>& call, int64_t b, int64_t h) { StepOf(call, b, h); }
void StepF64(const mixers::StepCall<double>& call, int64_t b, int64_t h) { StepOf(call, b, h); }

}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heed::mixers {
HWY_EXPORT(StepF32);
HWY_EXPORT(StepF64);

// Heads whose states are some 64 Ki elements make a task: below, waking a thread takes longer than it saves.
template <class T>
void RunStep(const StepCall<T>& call, Executor& executor) {
  const auto& [batch, heads, dim, columns] = call.state.extent;
  const int64_t together = std::max<int64_t>(1, (int64_t{1} << 16) / std::max<int64_t>(1, dim * columns));
  const int64_t all = batch * heads;
  core::RunTasks(executor, (all + together - 1) / together, [&, heads = heads](int64_t task) {
    for (int64_t at = task * together; at < std::min(all, (task + 1) * together); ++at) {
      if constexpr (std::is_same_v<T, float>) {
        HWY_DYNAMIC_DISPATCH(StepF32)(call, at / heads, at % heads);
      } else {
        HWY_DYNAMIC_DISPATCH(StepF64)(call, at / heads, at % heads);
      }
    }
  });
}

template void RunStep(const StepCall<float>&, Executor&);
template void RunStep(const StepCall<double>&, Executor&);

}  // namespace heed::mixers
#endif
