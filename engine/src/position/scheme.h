// The plain part of a positional scheme: what it checks, prepares and sums up around the kernels, and what schemes share for
// that: blocks of the backward pass, a hook's place, checks of tables by offset. docs/adding-a-scheme.md walks through one.
//
// Scheme NAME lives in the folder position/NAME: its option (include/heed/position/NAME.h; option.in and gradients.in are its
// members of Attention and BiasGradients), its plain part (scheme.h), its SIMD part (hook-inl.h, see
// attention/position_hook-inl.h) and its formulas in double precision (reference.h). The list in engine/CMakeLists.txt gives
// every scheme its place; nothing else names one.
#ifndef HEED_POSITION_SCHEME_H_
#define HEED_POSITION_SCHEME_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <variant>

#include "attention/problem.h"
#include "core/arena.h"
#include "core/arrays.h"
#include "heed/attention.h"

namespace heed::position {

// Which pairs of a batch row and a key head the backward pass takes one after the other, because they add to the same gradient.
// Pairs are told apart by groups: those of one group share every entry of some gradient, those of different groups share none.
// A block is a piece of a group, each with a copy of the gradient, or several whole groups. Pairs of a block run one after the
// other, blocks at the same time. Everything follows from the shape, so the order of all sums does too.
class Blocks {
 public:
  // Pairs that share nothing.
  explicit Blocks(const Shape& shape) : batch_(shape.batch), heads_(shape.kv_heads), group_batch_(1), group_heads_(1) {}

  // Batch rows, key heads or both share; their groups are cut in pieces, up to `copies`, while fewer than `enough` blocks are
  // there.
  void Share(bool batch, bool heads, int64_t enough, int64_t copies) {
    if (batch) group_batch_ = batch_;
    if (heads) group_heads_ = heads_;
    if (groups() < enough) copies_ = std::clamp<int64_t>(group_batch_ * group_heads_, 1, copies);
  }
  // No more than `most` blocks, at least 1: fewer pieces of groups, then several groups a block.
  void Limit(int64_t most) {
    copies_ = std::clamp<int64_t>(most / std::max<int64_t>(1, groups()), 1, copies_);
    merged_ = std::max<int64_t>(1, attention::DivideUp(groups(), most));
  }

  int64_t count() const { return attention::DivideUp(groups(), merged_) * copies_; }
  // Pieces that each group is cut in; block x is piece x % copies() of its group.
  int64_t copies() const { return copies_; }

  // Calls visit(batch row, key head) for the pairs of a block, in their order.
  template <class Visit>
  void ForEachPair(int64_t block, const Visit& visit) const {
    const int64_t first = block / copies_ * merged_, last = std::min(first + merged_, groups());
    const int64_t pairs = group_batch_ * group_heads_, copy = block % copies_;
    for (int64_t group = first; group < last; ++group) {
      const int64_t across = std::max<int64_t>(1, heads_ / std::max<int64_t>(1, group_heads_));
      const int64_t b = group / across * group_batch_, head = group % across * group_heads_;
      for (int64_t x = copy * pairs / copies_; x < (copy + 1) * pairs / copies_; ++x)
        visit(b + x / group_heads_, head + x % group_heads_);
    }
  }

 private:
  int64_t groups() const { return batch_ == 0 || heads_ == 0 ? 0 : batch_ / group_batch_ * (heads_ / group_heads_); }

  int64_t batch_, heads_;
  int64_t group_batch_, group_heads_;  // batch rows and key heads of a group
  int64_t copies_ = 1, merged_ = 1;    // pieces of a group, groups of a block; one of them is 1
};

enum class Pass { kForward, kTangent, kBackward, kBackwardTangent };

// What a scheme knows of a call before it computes.
struct CallFacts {
  const Attention& attention;
  const Shape& shape;
  const attention::Cut& cut;
  Pass pass;

  bool backward() const { return pass == Pass::kBackward || pass == Pass::kBackwardTangent; }
  // Whether derivatives of scores are multiplied with: gradients, or tangents.
  bool derives() const { return pass != Pass::kForward; }
};

// The pairs that a scheme hides; the one of a scheme that does is constructed from (attention, shape).
struct NoSight {
  NoSight(const Attention&, const Shape&) {}
  bool Hidden(int64_t /*b*/, int64_t /*h*/, int64_t /*i*/, int64_t /*j*/) const { return false; }
};

// What a scheme says of its options. Self is the class that derives from this and adds
//   static bool Present(const Attention&);
//       whether a call asks for it
//   static void Check(const Attention&, const Shape&);
//       throws InvalidArgument; value_dim is -1 where a call has no values
//   static void ForEachTable(Options& attention, Gradients&, visit);
//       calls visit(name, pointer to a table behind its option or null, name of its gradient, gradient), or visit(name,
//       pointer) for a table without a gradient; name is null where the table was named before
//   template <class T> using Call = ..;
//       derives from SchemeCall
template <class Self>
struct Scheme {
  // Whether it hides pairs of queries and keys, and which. A sight may also have `attention::Seen Judge(PairBlock) const`,
  // which says of many pairs at once whether all, some or none of them are seen.
  static bool Hides(const Attention&) { return false; }
  using Sight = NoSight;
  // Whether one task of the backward pass has to take all keys of a head, in their order.
  static constexpr bool kTakesAllKeys = false;
  // Whether tangents of queries and keys pass it, and whether its own tables may have tangents.
  static constexpr bool kPassesTangents = false, kHasTangents = false;
  // Whether its gradients have tangents too, and those of its tables move other gradients: its Call is then constructed from
  // (facts, gradients wanted, tangents), where the former are those of the gradients in the tangent of the backward pass.
  static constexpr bool kHasGradientTangents = false;
  // Whether no panel of the backward pass has queries of two heads.
  static constexpr bool kHeadByHead = true;

  // Calls visit(name, table) for the arrays behind its option, and visit(name, gradient, pointer to the table or null).
  template <class Options, class Visit>
  static void ForEachArray(Options& attention, const Visit& visit) {
    const BiasGradients<float> none;
    Self::ForEachTable(attention, none, [&](const char* name, auto* table, auto&&...) {
      if (name && table) visit(name, *table);
    });
  }
  template <class Gradients, class Visit>
  static void ForEachGradient(const Attention& attention, Gradients& gradients, const Visit& visit) {
    Self::ForEachTable(attention, gradients, [&](const char*, const auto* table, auto&&... gradient) {
      if constexpr (sizeof...(gradient) > 0) visit(gradient..., table);
    });
  }
};

// A scheme for the time of one call: constructed from (facts, gradients wanted) where it is present, shared by all workers. In
// the tangent pass the tangents of its tables, which are only read, stand in the place of the gradients.
// Whoever derives replaces what it needs.
template <class T>
struct SchemeCall {
  // Whether it has to do with tiles; one that has not needs no hook, and no task of its own.
  static constexpr bool kMeetsTiles = true;

  // Arrays that a worker works in; constructed from (arena, the scheme's call).
  struct Scratch {
    template <class Call>
    Scratch(core::Arena&, const Call&) {}
  };

  // Rows behind those of the values that the forward pass carries along as a panel's output, weighted, rescaled and normalised.
  int64_t output_rows() const { return 0; }

  // Memory that the call needs once, laid out in `arena`, and filling it before the first task.
  void LayPrepared(core::Arena&) {}
  void Prepare() const {}

  // Of the backward pass. Whether a gradient is wanted that comes from that of the scores.
  bool wants_scores() const { return false; }
  // Which pairs of batch row and key head share a gradient, and how many blocks of them there may be at most.
  void ShareIn(Blocks&) const {}
  int64_t most_blocks() const { return INT64_MAX; }
  // Where tasks gather gradients, and what becomes of it: each of the `sums()` steps before the first task and after the last
  // one may run beside the others.
  void LayParts(core::Arena&, const Blocks&) {}
  int64_t sums() const { return 0; }
  void Clear(int64_t /*sum*/) const {}
  void Finish(int64_t /*sum*/) const {}
  // Of one that brings a key without a value (see KeyOfSchemes), where its gradient is wanted: sums over rows, which
  // may run beside each other.
  int64_t key_sums() const { return 0; }
  void SumKey(const attention::ValuelessKeyGradients&, int64_t /*sum*/) const {}
};

// What a scheme's SIMD part knows of the worker that it belongs to.
struct HookPlace {
  const attention::Plan& plan;
  const attention::Cut& cut;
  simd::Ahead& ahead;  // memory that the worker will need soon
  int64_t output_row;  // where its rows behind the values begin, see SchemeCall::output_rows
};

// Checks that tables by offset share. All throw InvalidArgument.

template <int Rank>
std::array<int64_t, static_cast<std::size_t>(Rank)> ExtentOf(const Table<Rank>& table) {
  return std::visit([](const auto& view) { return core::ExtentsOf(view).extent; }, table);
}

// How many rows, 2M+1 of them, a table may have so that vectors of 32-bit numbers can hold their indices, or those of their
// products with a panel of 64 queries.
constexpr int64_t kMostOffsets = int64_t{1} << 30, kMostMultipliedOffsets = int64_t{1} << 25;
void CheckOffsetRows(const char* name, int64_t rows, int64_t most);

// Tables by whole offsets need whole positions.
void CheckWholePositions(const char* scheme, const Attention& attention);

}  // namespace heed::position

#endif  // HEED_POSITION_SCHEME_H_
