// What a call and its workspace have in common: tasks, schemes, memory.
#ifndef HEED_DISPATCH_LAYOUTS_H_
#define HEED_DISPATCH_LAYOUTS_H_

#include <cstddef>
#include <cstdint>
#include <variant>

#include "attention/problem.h"
#include "dispatch/calls.h"
#include "dispatch/tasks.h"
#include "dispatch/workers.h"
#include "position/scheme_set.h"

namespace heed::dispatch {

// What a forward call, weights on request and the workspace of either have in common: tasks, schemes, memory.
template <class T>
class ForwardLayout {
 public:
  // tangents: those of schemes in a call with tangents, else null.
  ForwardLayout(const Attention& attention, const attention::Cut& cut, const Shape& shape, Elements elements, int workers,
                const BiasGradients<T>* tangents = nullptr)
      : tasks_(shape, cut, workers, attention::Uneven(attention)),
        schemes_({.attention = attention,
                  .shape = shape,
                  .cut = cut,
                  .pass = tangents ? position::Pass::kTangent : position::Pass::kForward},
                 tangents ? *tangents : BiasGradients<T>()),
        facts_{.attention = attention,
               .cut = cut,
               .shape = shape,
               .narrow = elements == Elements::kNarrow,
               .scheme_rows = schemes_.output_rows() + (tangents ? attention::TangentArrays<T>::OutputRows(shape) : int64_t{0}),
               .tangents = tangents != nullptr} {}

  position::SchemeSet<T>& schemes() { return schemes_; }
  const attention::ScratchFacts& facts() const { return facts_; }
  ForwardTasks& tasks() { return tasks_; }
  // Elements that one split hands on.
  int64_t PartSize() const { return attention::SplitPart(facts_.shape, facts_.cut, facts_.scheme_rows); }

  // Lays out what all workers share; returns the partial states of all splits, null where panels are not split.
  T* LayShared(core::Arena& arena) {
    tasks_.LayOrder(arena);
    schemes_.LayShared(arena);
    const attention::Cut& cut = facts_.cut;
    const Shape& shape = facts_.shape;
    if (cut.splits == 1) return nullptr;
    return arena.Take<T>(shape.batch, shape.q_heads / cut.group, cut.panels, cut.splits, PartSize());
  }
  CallMemory Memory(int workers) {
    core::Arena shared, own;
    LayShared(shared);
    attention::ForwardScratch<T>(own, facts_);
    schemes_.LayScratch(own);
    return {shared, own, workers};
  }

 private:
  ForwardTasks tasks_;
  position::SchemeSet<T> schemes_;
  attention::ScratchFacts facts_;
};

// Multiply-adds of the backward pass over those of the forward pass, and of its tangent.
inline constexpr double kBackwardWork = 2.5, kBackwardTangentWork = 6;

// What a backward call and its workspace have in common, and what of it runs apart.
template <class T>
class BackwardLayout {
 public:
  // tangents: those of schemes in a call with tangents, else null.
  BackwardLayout(const Attention& attention, const attention::Cut& cut, const Shape& shape, Elements elements,
                 const attention::WantedOperands& wanted, const BiasGradients<T>& wanted_of_schemes, int workers,
                 const BiasGradients<T>* tangents = nullptr)
      : schemes_({.attention = attention,
                  .shape = shape,
                  .cut = cut,
                  .pass = tangents ? position::Pass::kBackwardTangent : position::Pass::kBackward},
                 wanted_of_schemes, tangents ? *tangents : BiasGradients<T>()),
        apart_(ApartOf(cut, schemes_.blocks().count(), workers)),
        facts_{.attention = attention,
               .cut = cut,
               .shape = shape,
               .narrow = elements == Elements::kNarrow,
               .scheme_rows = 0,
               .sums_pieces = cut.pieces > 1 && apart_ != Apart::kPieces,
               .tangents = tangents != nullptr},
        wanted_(wanted),
        workers_(workers),
        tasks_(schemes_.blocks(), cut, apart_, workers, attention::Uneven(attention)) {}

  position::SchemeSet<T>& schemes() { return schemes_; }
  const attention::ScratchFacts& facts() const { return facts_; }
  BackwardTasks& tasks() { return tasks_; }
  Apart apart() const { return apart_; }
  // Whether chunks keep their dQ apart.
  bool query_parts() const { return apart_ != Apart::kNothing && facts_.cut.chunks > 1 && wanted_.queries; }
  FinishTasks finish() const {
    return {facts_.shape, facts_.cut, wanted_.queries && (facts_.narrow || query_parts()), apart_ == Apart::kPieces};
  }

  attention::BackwardSums<T> LayShared(core::Arena& arena) {
    tasks_.LayOrder(arena);
    schemes_.LayShared(arena);
    attention::BackwardSums<T> sums;
    const Shape& shape = facts_.shape;
    const attention::Cut& cut = facts_.cut;
    const Packed& packed = facts_.attention.packed;
    const int64_t queries = packed.present() ? packed.query_offsets(shape.batch) : shape.batch * shape.q_len;
    const int64_t keys = packed.present() ? packed.key_offsets(shape.batch) : shape.batch * shape.kv_len;
    if (wanted_.queries && facts_.narrow) sums.d_q_wide = arena.Take<T>(shape.q_heads, queries, shape.head_dim);
    if (query_parts()) sums.d_q_parts = arena.Take<T>(cut.chunks - 1, shape.q_heads, queries, shape.head_dim);
    if (apart_ != Apart::kPieces) return sums;
    if (wanted_.keys) sums.d_k_parts = arena.Take<T>(cut.pieces, shape.kv_heads, keys, cut.head_dim);
    if (wanted_.values) sums.d_v_parts = arena.Take<T>(cut.pieces, shape.kv_heads, keys, cut.value_dim);
    sums.piece_sees = arena.Take<bool>(shape.batch, shape.kv_heads, cut.chunks, cut.pieces);
    return sums;
  }
  CallMemory Memory() {
    core::Arena shared, own;
    LayShared(shared);
    attention::BackwardScratch<T>(own, facts_, wanted_);
    schemes_.LayScratch(own);
    return {shared, own, workers_};
  }

 private:
  position::SchemeSet<T> schemes_;
  Apart apart_;
  attention::ScratchFacts facts_;
  attention::WantedOperands wanted_;
  int workers_;
  BackwardTasks tasks_;
};

// All gradients that a call may ask for, by presence alone; tangents: whether it asks for theirs.
template <class T>
BiasGradients<T> AllGradients(const Attention& attention, bool tangents = false) {
  static T somewhere{};
  BiasGradients<T> all;
  position::ForEachSchemeGradient(attention, all, [](const char*, auto& gradient, const auto* table) {
    if (!table) return;
    std::visit([&](const auto& t) { gradient.extent = t.extent; }, *table);
    gradient.data = &somewhere;
  });
  if (!tangents) return all;
  position::ForEachScheme([&]<class Scheme>() {
    const auto clear = [](const char*, auto& gradient, const auto*) { gradient.data = nullptr; };
    if (!Scheme::kHasGradientTangents) Scheme::ForEachGradient(attention, all, clear);
  });
  return all;
}

}  // namespace heed::dispatch

#endif  // HEED_DISPATCH_LAYOUTS_H_
