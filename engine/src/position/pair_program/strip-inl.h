// The part of a program that is computed for every pair, a few keys of a tile at a time: each step passes over a strip that
// stays in the first-level cache.
#if defined(HEED_POSITION_PAIR_PROGRAM_STRIP_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_POSITION_PAIR_PROGRAM_STRIP_INL_H_
#undef HEED_POSITION_PAIR_PROGRAM_STRIP_INL_H_
#else
#define HEED_POSITION_PAIR_PROGRAM_STRIP_INL_H_
#endif

#include <algorithm>
#include <array>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "attention/position_hook-inl.h"
#include "heed/portable_math.h"
#include "hwy/highway.h"
#include "position/pair_program/call_code.h"
#include "position/pair_program/step_math-inl.h"
#include "program/operation.h"
#include "simd/exp2-inl.h"
#include "simd/tuning.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Numbers of a strip: that of its key j and lane w at base + j * key_stride + w * lane_stride, a stride of 0 for vectors that
// repeat.
template <class E>
struct StripSource {
  const E* base = nullptr;
  int64_t key_stride = 0, lane_stride = 0;

  HWY_INLINE const E* At(int64_t j, int64_t w) const { return base + j * key_stride + w * lane_stride; }
};

// Calls compute(vectors..) for all vectors of a strip. By value, so that nothing is loaded again behind a store of a vector,
// which might have changed it for all the compiler knows.
template <class E, class F, class... Source>
HWY_INLINE void MapStrip(position::StripExtent extent, E* HWY_RESTRICT out, F compute, Source... sources) {
  const hn::ScalableTag<E> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  out += extent.lane_begin;
  const int64_t width = extent.lane_end - extent.lane_begin;
  ((sources.base += extent.lane_begin * sources.lane_stride), ...);
  for (int64_t j = 0; j < extent.keys; ++j) {
    for (int64_t w = 0; w < width; w += lanes) hn::Store(compute(hn::LoadU(d, sources.At(0, w))...), d, out + w);
    out += extent.panel;
    ((sources.base += sources.key_stride), ...);
  }
}

// One operation on a strip of elements E.
template <class E>
class StripStep {
 public:
  StripStep(const position::StripExtent& extent, const std::array<StripSource<E>, 3>& x, E* out)
      : extent_(extent), x_(x), out_(out) {}

  // A function of its own for each group keeps the code of one small.
  void Compute(program::Operation operation) const {
    using enum program::Operation;
    if (operation <= kTruncate) return Arithmetic(operation);
    if (operation <= kCos) return Function(operation);
    Choice(operation);
  }

 private:
  using D = hn::ScalableTag<E>;
  using V = hn::Vec<D>;
  static constexpr D d_{};

  template <class F>
  HWY_INLINE void One(const F& f) const {
    MapStrip(extent_, out_, f, x_[0]);
  }
  template <class F>
  HWY_INLINE void Two(const F& f) const {
    MapStrip(extent_, out_, f, x_[0], x_[1]);
  }
  template <class F>
  HWY_INLINE void Three(const F& f) const {
    MapStrip(extent_, out_, f, x_[0], x_[1], x_[2]);
  }

  template <class F>
  HWY_INLINE void Bits(const F& f) const {
    Two([&](V a, V b) HWY_ATTR { return LaneByLane(d_, a, b, [&](E x, E y) { return static_cast<E>(f(x, y)); }); });
  }

  template <class Half>
  static E Rounded(E a, E) {
    return static_cast<E>(program::RoundedTo<Half>(a));
  }

  HWY_NOINLINE void Arithmetic(program::Operation operation) const {
    using enum program::Operation;
    switch (operation) {
      case kAdd:
        return Two([](V a, V b) HWY_ATTR { return hn::Add(a, b); });
      case kSubtract:
        return Two([](V a, V b) HWY_ATTR { return hn::Sub(a, b); });
      case kMultiply:
        return Two([](V a, V b) HWY_ATTR { return hn::Mul(a, b); });
      case kDivide:
        return Two([](V a, V b) HWY_ATTR { return hn::Div(a, b); });
      case kFloorDivide:
        return Two([](V a, V b) HWY_ATTR {
          V rest;
          return FloorQuotientOf(d_, a, b, &rest);
        });
      case kRemainder:
        return Two([](V a, V b) HWY_ATTR {
          V rest;
          FloorQuotientOf(d_, a, b, &rest);
          return rest;
        });
      case kPower:
        return Two([](V a, V b) HWY_ATTR {
          return LaneByLane(d_, a, b, [](E x, E y) { return static_cast<E>(portable::Pow(double{x}, double{y})); });
        });
      case kMinimum:
        return Two([](V a, V b) HWY_ATTR { return KeepNan(d_, a, hn::IfThenElse(hn::Lt(a, b), a, b)); });
      case kMaximum:
        return Two([](V a, V b) HWY_ATTR { return KeepNan(d_, a, hn::IfThenElse(hn::Gt(a, b), a, b)); });
      case kNegate:
        return One([](V a) HWY_ATTR { return hn::Neg(a); });
      case kAbsolute:
        return One([](V a) HWY_ATTR { return hn::Abs(a); });
      case kFloor:
        return One([](V a) HWY_ATTR { return hn::Floor(a); });
      case kTruncate:
        return One([](V a) HWY_ATTR { return hn::Trunc(a); });
      default:
        return;
    }
  }

  HWY_NOINLINE void Function(program::Operation operation) const {
    using enum program::Operation;
    switch (operation) {
      case kToBFloat16:
        return One([](V a) HWY_ATTR { return LaneByLane(d_, a, a, Rounded<BFloat16>); });
      case kToFloat16:
        return One([](V a) HWY_ATTR { return LaneByLane(d_, a, a, Rounded<Float16>); });
      case kExp:
        return One([](V a) HWY_ATTR { return ExpOf(d_, a); });
      case kExp2:
        return One([](V a) HWY_ATTR { return Exp2Of(d_, a); });
      case kLog:
        return One([](V a) HWY_ATTR { return LogOf(d_, a, E{0}, [](V x) HWY_ATTR { return hn::Log(d_, x); }); });
      case kLog1p:
        return One([](V a) HWY_ATTR { return LogOf(d_, a, E{-1}, [](V x) HWY_ATTR { return hn::Log1p(d_, x); }); });
      case kSqrt:
        return One([](V a) HWY_ATTR { return hn::Sqrt(a); });
      case kReciprocal:
        return One([](V a) HWY_ATTR { return hn::Div(hn::Set(d_, E{1}), a); });
      case kTanh:
        return One([](V a) HWY_ATTR { return TanhOf(d_, a); });
      case kSigmoid:
        return One([](V a) HWY_ATTR { return SigmoidOf(d_, a); });
      case kErf:
        return One([](V a) HWY_ATTR { return LaneByLane(d_, a, a, [](E x, E) { return portable::Erf(x); }); });
      case kSin:
        return One([](V a) HWY_ATTR { return SinOf(d_, a); });
      case kCos:
        return One([](V a) HWY_ATTR { return CosOf(d_, a); });
      default:
        return;
    }
  }

  HWY_NOINLINE void Choice(program::Operation operation) const {
    using enum program::Operation;
    switch (operation) {
      case kLess:
        return Two([](V a, V b) HWY_ATTR { return Truths(d_, hn::Lt(a, b)); });
      case kLessEqual:
        return Two([](V a, V b) HWY_ATTR { return Truths(d_, hn::Le(a, b)); });
      case kEqual:
        return Two([](V a, V b) HWY_ATTR { return Truths(d_, hn::Eq(a, b)); });
      case kNotEqual:
        // Highway's own is false of NaN.
        return Two([](V a, V b) HWY_ATTR { return Truths(d_, hn::Not(hn::Eq(a, b))); });
      case kAnd:
        return Two([](V a, V b) HWY_ATTR { return Truths(d_, hn::And(Holds(d_, a), Holds(d_, b))); });
      case kOr:
        return Two([](V a, V b) HWY_ATTR { return Truths(d_, hn::Or(Holds(d_, a), Holds(d_, b))); });
      case kBitAnd:
        return Bits([](double x, double y) { return program::BitAndOf(x, y); });
      case kBitOr:
        return Bits([](double x, double y) { return program::BitOrOf(x, y); });
      case kBitXor:
        return Bits([](double x, double y) { return program::BitXorOf(x, y); });
      case kNot:
        return One([](V a) HWY_ATTR { return Truths(d_, hn::Eq(a, hn::Zero(d_))); });
      case kSelect:
        return Three([](V c, V a, V b) HWY_ATTR { return hn::IfThenElse(Holds(d_, c), a, b); });
      case kScaled:
        return Two([](V a, V b) HWY_ATTR { return hn::IfThenZeroElse(hn::Eq(a, hn::Zero(d_)), hn::Mul(a, b)); });
      case kBelow:
        return Two([](V a, V b) HWY_ATTR {
          const auto half = hn::Set(d_, E{0.5});
          return hn::Add(hn::IfThenElseZero(hn::Lt(a, b), half), hn::IfThenElseZero(hn::Le(a, b), half));
        });
      case kMultiplyAdd:
        return Three([](V a, V b, V c) HWY_ATTR { return hn::MulAdd(a, b, c); });
      case kMultiplySubtract:
        return Three([](V a, V b, V c) HWY_ATTR { return hn::MulSub(a, b, c); });
      case kSubtractProduct:
        return Three([](V a, V b, V c) HWY_ATTR { return hn::NegMulAdd(a, b, c); });
      case kScaledAdd:
        return Three([](V a, V b, V c) HWY_ATTR { return hn::IfThenElse(hn::Eq(a, hn::Zero(d_)), c, hn::MulAdd(a, b, c)); });
      default:
        return;
    }
  }

  const position::StripExtent& extent_;
  const std::array<StripSource<E>, 3>& x_;
  E* out_;
};

// Elements of one type from those of the other; `narrow` has half as many bytes.
template <class T>
HWY_INLINE void WidenStrip(const position::StripExtent& extent, const StripSource<T>& from, double* out) {
  for (int64_t j = 0; j < extent.keys; ++j)
    for (int64_t w = extent.lane_begin; w < extent.lane_end; ++w)
      out[j * extent.panel + w] = static_cast<double>(*from.At(j, w));
}
template <class T>
HWY_INLINE void NarrowStrip(const position::StripExtent& extent, const StripSource<double>& from, T* out) {
  for (int64_t j = 0; j < extent.keys; ++j)
    for (int64_t w = extent.lane_begin; w < extent.lane_end; ++w) out[j * extent.panel + w] = static_cast<T>(*from.At(j, w));
}

// What the pairs of a tile have of their own, [keys, panel] each; null where a program does without.
template <class T>
struct PairArrays {
  const T* score = nullptr;     // in nats
  const T* bits = nullptr;      // in powers of two
  const T* gradient = nullptr;  // of the result
  const T* kept = nullptr;      // [values, kTileKeys, panel]
};

// A worker's machine for the pair code of one program.
template <class T>
class PairStrips {
 public:
  PairStrips(const position::CallCode<T>& code, const position::StripMemory& memory)
      : code_(code), memory_(memory), narrow_(code.pairs().given.size()), wide_(code.pairs().given.size()) {
    for (std::size_t x = 0; x < pairs().constants.size(); ++x) {
      std::fill_n(memory_.template constant<T>(x), position::kRepeats, program::Narrowed<T>(pairs().constants[x]));
      std::fill_n(memory_.template constant<double>(x), position::kRepeats, pairs().constants[x]);
    }
  }

  // How many keys of a tile a strip holds.
  int64_t rows() const { return memory_.rows; }

  // Computes all steps for `keys` keys of a tile from its key `first` on.
  void Run(const TilePlace& place, int64_t first, int64_t keys, const PairArrays<T>& own) {
    place_ = &place;
    first_ = first;
    own_ = &own;
    extent_ = {keys, place.panel, place.lane_begin, place.lane_end};
    for (std::size_t x = 0; x < pairs().given.size(); ++x) {
      if (pairs().given[x].narrow) PlaceGiven<T>(x);
      if (pairs().given[x].wide) PlaceGiven<double>(x);
    }
    for (const program::Step& step : pairs().steps) {
      const bool narrow = step.element == program::Element::kNarrow;
      if (narrow) Execute<T>(step);
      if (!narrow) Execute<double>(step);
    }
  }
  const position::StripExtent& extent() const { return extent_; }

  program::Element element(std::size_t result) const { return pairs().results[result].element; }
  // A result of the last Run, as its own element.
  template <class E>
  StripSource<E> result(std::size_t index) const {
    return SourceOf<E>(pairs().results[index].operand);
  }
  // Calls visit(a result of the last Run, as its own element).
  template <class Visit>
  void WithResult(std::size_t index, const Visit& visit) const {
    if constexpr (!std::is_same_v<T, double>)
      if (element(index) == program::Element::kWide) return visit(result<double>(index));
    visit(result<T>(index));
  }
  double NumberOf(std::size_t index, int64_t j, int64_t w) const {
    if (element(index) == program::Element::kWide) return *result<double>(index).At(j, w);
    return static_cast<double>(*result<T>(index).At(j, w));
  }

 private:
  const program::PairCode& pairs() const { return code_.pairs(); }

  template <class E>
  StripSource<E>& given(std::size_t index) {
    return given_of(static_cast<const E*>(nullptr))[index];
  }
  auto& given_of(const T*) { return narrow_; }
  // Where T is double, nothing is wide.
  template <class E>
    requires(!std::is_same_v<E, T>)
  auto& given_of(const E*) {
    return wide_;
  }

  template <class E>
  StripSource<E> SourceOf(const program::Operand& operand) const {
    using Place = program::Operand::Place;
    const auto index = static_cast<std::size_t>(operand.index);
    switch (operand.place) {
      case Place::kRegister:
        return {memory_.template at<E>(operand.index), extent_.panel, 1};
      case Place::kConstant:
        return {memory_.template constant<E>(index), 0, 0};
      case Place::kGiven:
        if constexpr (std::is_same_v<E, T>)
          return narrow_[index];
        else
          return wide_[index];
      case Place::kScore:
        return Own<E>(own_->score);
      case Place::kScoreBits:
        return Own<E>(own_->bits);
      case Place::kGradient:
        return Own<E>(own_->gradient);
      case Place::kKept:
        return Own<E>(own_->kept + operand.index * simd::kTileKeys * extent_.panel);
    }
    return {};
  }

  // Numbers of the tile in the strip.
  template <class E>
  StripSource<E> Own(const T* tile) const {
    if constexpr (std::is_same_v<E, T>)
      return {tile + first_ * extent_.panel, extent_.panel, 1};
    else
      return {};
  }

  // Where the strip finds a given value.
  template <class E>
  void PlaceGiven(std::size_t x) {
    const TilePlace& place = *place_;
    const program::Axis axis = pairs().given[x].domain.axis;
    const int64_t key = place.key + first_;
    const int index = static_cast<int>(x);
    if (!place.one_head) return GatherGiven<E>(x);
    const E* values = code_.template values<E>(index, place.b, place.head);
    if (axis == program::Axis::kQuery) {
      given<E>(x) = {values + place.query, 0, 1};
    } else if (axis == program::Axis::kOffset) {
      given<E>(x) = {values + code_.form().PlaceOfOffset(key - place.query), -1, 1};
    } else {
      const bool along = axis == program::Axis::kKey;
      E* repeated = memory_.template given<E>(x);
      for (int64_t j = 0; j < (along ? extent_.keys : 1); ++j)
        std::fill_n(repeated + j * position::kRepeats, position::kRepeats, along ? values[key + j] : values[0]);
      given<E>(x) = {repeated, along ? position::kRepeats : 0, 0};
    }
  }

  // Of panels in which several heads stand side by side.
  template <class E>
  void GatherGiven(std::size_t x) {
    const TilePlace& place = *place_;
    const program::Axis axis = pairs().given[x].domain.axis;
    E* gathered = memory_.template given<E>(x);
    for (int64_t w = extent_.lane_begin; w < extent_.lane_end; ++w) {
      const int64_t head = w < place.used ? place.heads[w] : place.head, query = w < place.used ? place.queries[w] : 0;
      const E* values = code_.template values<E>(static_cast<int>(x), place.b, head);
      for (int64_t j = 0; j < extent_.keys; ++j) {
        const int64_t key = place.key + first_ + j;
        const int64_t at = axis == program::Axis::kQuery    ? query
                           : axis == program::Axis::kKey    ? key
                           : axis == program::Axis::kOffset ? code_.form().PlaceOfOffset(key - query)
                                                            : 0;
        gathered[j * extent_.panel + w] = values[at];
      }
    }
    given<E>(x) = {gathered, extent_.panel, 1};
  }

  template <class E>
  void Execute(const program::Step& step) {
    E* out = memory_.template at<E>(step.result);
    if (step.kind == program::Step::Kind::kConvert) {
      if constexpr (!std::is_same_v<T, double>) {
        if constexpr (std::is_same_v<E, double>)
          WidenStrip<T>(extent_, SourceOf<T>(step.operands[0]), out);
        else
          NarrowStrip<T>(extent_, SourceOf<double>(step.operands[0]), out);
      }
      return;
    }
    if (step.kind == program::Step::Kind::kRead) {
      if (step.of_result == program::Element::kWide) return Read<E>(step, memory_.template at<double>(step.result));
      return Read<E>(step, memory_.template at<T>(step.result));
    }
    std::array<StripSource<E>, 3> sources;
    for (std::size_t x = 0; x < step.operands.size(); ++x) sources[x] = SourceOf<E>(step.operands[x]);
    StripStep<E>(extent_, sources, out).Compute(step.operation);
  }

  // Entries of tables, or inner products of rows; 0 in idle lanes.
  template <class E, class R>
  void Read(const program::Step& step, R* out) {
    std::array<StripSource<E>, 8> sources;
    for (std::size_t x = 0; x < step.operands.size(); ++x) sources[x] = SourceOf<E>(step.operands[x]);
    const program::Instruction& instruction = code_.code()[step.instruction];
    const int64_t begin = extent_.lane_begin, end = std::max(begin, std::min(place_->used_end(), extent_.lane_end));
    for (int64_t j = 0; j < extent_.keys; ++j) {
      R* row = out + j * extent_.panel;
      if (step.operation == program::Operation::kDot) {
        ReadProducts(instruction, sources, j, {begin, end}, row);
      } else {
        ReadEntries(instruction, sources, j, {begin, end}, row + begin);
      }
      std::fill(row + end, row + extent_.lane_end, R{0});
    }
  }
  template <class E, class R>
  void ReadEntries(const program::Instruction& instruction, const std::array<StripSource<E>, 8>& sources, int64_t j,
                   const attention::KeyRange& lanes, R* out) const {
    const program::TableReader& table = code_.tables()[static_cast<std::size_t>(instruction.reading.place)];
    program::EntryRow entries(lanes.end - lanes.begin);
    for (int x = 0; x < table.dimensions(); ++x) {
      const StripSource<E>& source = sources[static_cast<std::size_t>(x)];
      entries.Add(table.extent(x), table.stride(x), source.At(j, lanes.begin), source.lane_stride);
    }
    table.ReadRow(entries, out);
  }
  template <class E, class R>
  void ReadProducts(const program::Instruction& instruction, const std::array<StripSource<E>, 8>& sources, int64_t j,
                    const attention::KeyRange& lanes, R* out) const {
    for (int64_t w = lanes.begin; w < lanes.end; ++w) {
      std::array<double, 8> indices{};
      for (std::size_t x = 0; x < instruction.operands.size(); ++x) indices[x] = static_cast<double>(*sources[x].At(j, w));
      out[w] = program::Narrowed<R>(program::ReadBy(instruction, code_.tables(), indices.data()));
    }
  }

  const position::CallCode<T>& code_;
  position::StripMemory memory_;
  const TilePlace* place_ = nullptr;
  int64_t first_ = 0;
  position::StripExtent extent_{};
  const PairArrays<T>* own_ = nullptr;
  std::vector<StripSource<T>> narrow_;
  std::vector<StripSource<double>> wide_;
};

}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
