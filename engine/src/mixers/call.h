// One call of a mixer, or one step of decoding, as its kernels see it: sequences, chunks, arrays. No SIMD here.
#ifndef HEED_MIXERS_CALL_H_
#define HEED_MIXERS_CALL_H_

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "core/arena.h"
#include "core/task_loop.h"
#include "heed/linear_attention.h"

namespace heed::mixers {

// Steps of a chunk. Products within it grow with its length, those with the state do not: at a width of 64 both are alike.
constexpr int64_t kChunk = 64;
// Columns of tiles come in so many, the lanes of the widest vector.
constexpr int64_t kQuantum = 16;
// Rows of a triangle that are multiplied at once: less would fill register tiles badly, more compute what is 0.
constexpr int64_t kBlock = 16;

inline int64_t Padded(int64_t columns) { return (columns + kQuantum - 1) / kQuantum * kQuantum; }

// Of heads: keys have `dim` elements, values `columns`, the one that normalises included. Tiles have padded rows.
struct Sizes {
  int64_t dim = 0, columns = 0;
  int64_t key_stride() const { return Padded(dim); }
  int64_t value_stride() const { return Padded(columns); }
  int64_t state() const { return dim * value_stride(); }
  // A state and, behind it, the decay over its chunk.
  int64_t slot() const { return state() + kQuantum; }
};

// Steps first .. first + rows - 1 of one head of batch row `row` of the arrays.
struct Chunk {
  int64_t row, head, first, rows;
  bool operator==(const Chunk&) const = default;
};

// Where sequences lie and how they are cut.
class Sequences {
 public:
  Sequences() = default;
  // Of options that were checked.
  Sequences(const LinearOptions& options, int64_t batch, int64_t steps)
      : count_(options.offsets.present() ? options.offsets.extent[0] - 1 : batch),
        steps_(steps),
        longest_(ChunksOf(steps)),
        all_chunks_(batch * longest_),
        packed_(options.offsets.present()) {
    if (!packed_ && !options.lengths.present()) return;
    spans_.reserve(static_cast<std::size_t>(count_));
    int64_t before = longest_ = 0;
    for (int64_t b = 0; b < count_; ++b) {
      const int64_t first = packed_ ? options.offsets(b) : 0;
      const int64_t length = packed_ ? options.offsets(b + 1) - first : options.lengths.values(b, 0);
      const int64_t chunks = ChunksOf(length);
      spans_.push_back({first, length, before, chunks});
      before += chunks;
      longest_ = std::max(longest_, chunks);
    }
    all_chunks_ = before;
  }

  int64_t count() const { return count_; }
  int64_t all_chunks() const { return all_chunks_; }
  int64_t longest() const { return longest_; }  // in chunks
  int64_t Row(int64_t b) const { return packed_ ? 0 : b; }
  int64_t Length(int64_t b) const { return Of(b).length; }
  int64_t Chunks(int64_t b) const { return Of(b).chunks; }
  int64_t ChunksBefore(int64_t b) const { return Of(b).before; }
  bool packed() const { return packed_; }
  // The sequence of a chunk among all.
  int64_t SequenceOf(int64_t chunk) const {
    if (spans_.empty()) return chunk / longest_;
    const auto after = std::upper_bound(spans_.begin(), spans_.end(), chunk,
                                        [](int64_t number, const Span& span) { return number < span.before; });
    return after - spans_.begin() - 1;
  }
  Chunk At(int64_t b, int64_t head, int64_t chunk) const {
    const int64_t first = chunk * kChunk;
    return {Row(b), head, Of(b).first + first, std::min(kChunk, Of(b).length - first)};
  }

 private:
  struct Span {
    int64_t first, length, before, chunks;
  };
  static int64_t ChunksOf(int64_t length) { return (length + kChunk - 1) / kChunk; }
  Span Of(int64_t b) const {
    return spans_.empty() ? Span{0, steps_, b * longest_, longest_} : spans_[static_cast<std::size_t>(b)];
  }

  std::vector<Span> spans_;  // empty where each sequence has all steps, so that such a call allocates nothing
  int64_t count_ = 0, steps_ = 0, longest_ = 0, all_chunks_ = 0;
  bool packed_ = false;
};

template <class T>
struct Call {
  LinearInputs<T> in{};
  LinearOutputs<T> to{};
  LinearCotangents<T> from{};
  LinearGradients<T> gradients{};
  Sequences sequences{};
  int64_t heads = 0, steps = 0;
  Sizes sizes{};
  bool normalise = false, backward = false, delta = false;  // delta: whether it is the gated delta rule

  // Whether chunks of a sequence are tasks of their own; `states` and, backward, `d_states` then have a slot for each chunk and
  // head. Else a worker has the slots of one sequence.
  bool apart = false;
  T *states = nullptr, *d_states = nullptr;
  // What each chunk adds to the gradient of a decay that serves all steps of a head, [chunks, heads]; else null.
  double* decay_parts = nullptr;

  int64_t rows() const { return sequences.count() * heads; }
  bool wants_decay() const { return backward && gradients.d_decay.present(); }
  bool one_decay() const { return in.decay.present() && (in.decay.extent[0] != in.q.extent[0] || in.decay.extent[2] != steps); }
  // Of chunk `chunk` of a sequence.
  int64_t SlotIndex(int64_t b, int64_t head, int64_t chunk) const {
    return head * sequences.all_chunks() + sequences.ChunksBefore(b) + chunk;
  }
};

// The tiles that one worker computes with. Rows are kChunk steps; where the rows of a tile are columns of keys or values, its
// name ends with _t.
template <class T>
struct Scratch {
  Scratch(core::Arena& arena, const Call<T>& call) {
    const Sizes& s = call.sizes;
    const bool pads = s.key_stride() != s.dim || s.value_stride() != s.columns || call.normalise;
    const auto keys = [&] { return arena.Take<T>(kChunk, s.key_stride()); };
    const auto values = [&] { return arena.Take<T>(kChunk, s.value_stride()); };
    const auto square = [&] { return arena.Take<T>(kChunk, kChunk); };
    const std::size_t before = arena.used();
    auto* const begin = arena.Take<std::byte>(0);
    q = keys(), k = keys(), d_q = keys(), d_k = keys();
    v = values(), out = values(), d_out = values(), scaled = values(), held = values(), u = values(), d_u = values();
    k_t = arena.Take<T>(s.dim, kChunk), v_t = arena.Take<T>(s.columns, kChunk);
    weights = square(), scores = square(), d_scores = square(), pairs = square(), products = square(), system = square();
    arena.TakeEach(s.state(), carry, d_carry);
    arena.TakeEach(s.slot(), own, d_own);
    state_t = arena.Take<T>(s.columns, s.key_stride());
    arena.TakeEach(kChunk, from_start, to_end, row, beta, suffix, prefix, gradient);
    // What pads rows is 0, and stays so. Without memory the arena counts.
    if (begin && pads) std::memset(begin, 0, arena.used() - before);
    if (call.backward && !call.apart) slots = arena.Take<T>(call.sequences.longest(), s.slot());
  }

  T *q, *k, *d_q, *d_k;
  T *v, *out, *d_out, *scaled, *held, *u, *d_u;
  T *k_t, *v_t;
  T *weights, *scores, *d_scores, *pairs, *products, *system;
  T *carry, *d_carry, *own, *d_own, *state_t;
  T *from_start, *to_end, *row, *beta;
  double *suffix, *prefix, *gradient;
  T* slots = nullptr;
};

// A step of decoding.
template <class T>
struct StepCall {
  LinearStep<T> step{};
  View<T, 4> state{};
  View<T, 3> out{};
};

// Whole sequences; or their chunks by themselves, the states carried from one to the next, and chunks again.
enum class Part { kWhole, kSum, kCarry, kFinish };

// Those of the target in use: a part of a call as one worker, and the step of a head.
template <class T>
struct Kernels {
  void (*work)(const Call<T>& call, Part part, core::TaskQueue& tasks, std::byte* memory);
  void (*step)(const StepCall<T>& call, int64_t b, int64_t h);
};

// Check everything; throw InvalidArgument. delta: whether it is the gated delta rule.
template <class T>
Call<T> CheckedForward(const LinearOptions& options, const LinearInputs<T>& in, const LinearOutputs<T>& to, bool delta);
template <class T>
Call<T> CheckedBackward(const LinearOptions& options, const LinearInputs<T>& in, const LinearCotangents<T>& from,
                        const LinearGradients<T>& gradients, bool delta);
template <class T>
void CheckStep(const LinearStep<T>& step, const View<T, 4>& state, const View<T, 3>& out, bool delta, bool normalise);

}  // namespace heed::mixers

#endif  // HEED_MIXERS_CALL_H_
