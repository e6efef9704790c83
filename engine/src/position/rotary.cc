#include "heed/rotary.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <utility>

#include "core/arrays.h"
#include "core/regions.h"
#include "core/task_loop.h"
#include "heed/error.h"
#include "heed/portable_math.h"

namespace heed {
namespace {

using core::CheckApart;
using core::CheckDistinct;
using core::CheckPresent;
using core::Refuse;
using core::ShapeText;

// --- tables ---

template <class T>
void CheckTable(const RotaryFrequencies& frequencies, int64_t steps, const View<T, 2>& cos, const View<T, 2>& sin) {
  const std::array<int64_t, 2> expected{steps, static_cast<int64_t>(frequencies.values.size())};
  for (const auto& [name, table] : {std::pair{"cos", &cos}, std::pair{"sin", &sin}}) {
    CheckPresent(name, *table);
    if (table->extent != expected)
      Refuse(name, "expected [N, rotary_dim/2] = " + ShapeText<2>(expected) + ", got " + ShapeText<2>(table->extent));
    CheckDistinct(name, *table);
  }
  CheckApart("sin", sin, "cos", cos);
  for (double value : frequencies.values)
    if (!std::isfinite(value)) Refuse("frequencies", "expected finite numbers, got " + std::to_string(value));
  if (!std::isfinite(frequencies.attention_factor))
    Refuse("attention_factor", "expected a finite number, got " + std::to_string(frequencies.attention_factor));
}

// position_at(i): the i-th position, int64_t or double.
template <class T, class PositionAt>
void FillTable(const RotaryFrequencies& frequencies, const PositionAt& position_at, const View<T, 2>& cos,
               const View<T, 2>& sin) {
  const bool in_float = frequencies.angles == Angles::kFloat32;
  for (int64_t i = 0; i < cos.extent[0]; ++i) {
    const auto position = position_at(i);
    for (int64_t t = 0; t < cos.extent[1]; ++t) {
      const double frequency = frequencies.values[static_cast<size_t>(t)];
      if (in_float) {
        const float angle = static_cast<float>(position) * static_cast<float>(frequency);
        const auto factor = static_cast<float>(frequencies.attention_factor);
        cos(i, t) = static_cast<T>(static_cast<float>(portable::Cos(double{angle})) * factor);
        sin(i, t) = static_cast<T>(static_cast<float>(portable::Sin(double{angle})) * factor);
      } else {
        const double angle = static_cast<double>(position) * frequency;
        cos(i, t) = static_cast<T>(portable::Cos(angle) * frequencies.attention_factor);
        sin(i, t) = static_cast<T>(portable::Sin(angle) * frequencies.attention_factor);
      }
    }
  }
}

// Angles are computed in double, which from 2^53 on cannot tell neighbouring whole numbers apart.
template <class Position>
bool IsHeld(Position position) {
  constexpr double kLargest = 9007199254740992.0;
  return std::abs(static_cast<double>(position)) <= kLargest;
}

template <class T, class Position>
void TableOfList(const RotaryFrequencies& frequencies, const View<const Position, 1>& positions, const View<T, 2>& cos,
                 const View<T, 2>& sin) {
  CheckPresent("positions", positions);
  CheckTable(frequencies, positions.extent[0], cos, sin);
  CheckApart("cos", cos, "positions", positions);
  CheckApart("sin", sin, "positions", positions);
  for (int64_t i = 0; i < positions.extent[0]; ++i)
    if (!IsHeld(positions(i)))
      Refuse("positions",
             "expected finite numbers of at most 2^53, got " + std::to_string(positions(i)) + " at index " + std::to_string(i));
  FillTable(
      frequencies, [&](int64_t i) { return positions(i); }, cos, sin);
}

template <class T>
void TableFrom(const RotaryFrequencies& frequencies, int64_t first_position, const View<T, 2>& cos, const View<T, 2>& sin) {
  CheckTable(frequencies, cos.extent[0], cos, sin);
  int64_t end = 0;
  if (__builtin_add_overflow(first_position, cos.extent[0], &end)) Refuse("first_position", "the last position passes 2^63");
  if (!IsHeld(first_position) || !IsHeld(end)) Refuse("first_position", "expected positions of at most 2^53");
  FillTable(
      frequencies, [&](int64_t i) { return first_position + i; }, cos, sin);
}

// --- rotation ---

// Whether both describe the same elements; the stride of a dimension with one element means nothing.
template <class T>
bool IsSame(const View<const T, 4>& x, const View<T, 4>& out) {
  if (out.data != x.data) return false;
  for (size_t r = 0; r < 4; ++r)
    if (x.extent[r] > 1 && out.stride[r] != x.stride[r]) return false;
  return true;
}

template <class T>
void CheckRotation(const View<const T, 4>& x, const View<const T, 3>& cos, const View<const T, 3>& sin, const View<T, 4>& out) {
  CheckPresent("x", x);
  for (const auto& [name, table] : {std::pair{"cos", &cos}, std::pair{"sin", &sin}}) {
    CheckPresent(name, *table);
    const auto& extent = table->extent;
    if ((extent[0] != 1 && extent[0] != x.extent[0]) || extent[1] != x.extent[2])
      Refuse(name, "expected [B or 1, N, rotary_dim/2] with B = " + std::to_string(x.extent[0]) +
                       " and N = " + std::to_string(x.extent[2]) + ", got " + ShapeText<3>(extent));
    if (extent[2] > x.extent[3] / 2)
      Refuse(name, "expected at most D/2 = " + std::to_string(x.extent[3] / 2) + " columns for x " + ShapeText<4>(x.extent) +
                       ", got " + ShapeText<3>(extent));
  }
  if (cos.extent[2] != sin.extent[2])
    Refuse("sin", "expected as many columns as cos " + ShapeText<3>(cos.extent) + ", got " + ShapeText<3>(sin.extent));
  CheckPresent("out", out);
  if (out.extent != x.extent)
    Refuse("out", "expected the shape of x " + ShapeText<4>(x.extent) + ", got " + ShapeText<4>(out.extent));
  CheckDistinct("out", out);
  if (!IsSame(x, out)) CheckApart("out", out, "x", x);
  CheckApart("out", out, "cos", cos);
  CheckApart("out", out, "sin", sin);
}

// One row: where its first element lies and the distance to the next.
template <class T>
struct Row {
  T* data;
  int64_t stride;
};

// Turns `pairs` pairs: the second of a pair lies `apart` columns after the first, the next pair `step` columns further. With
// kUnit all four rows are dense, and the loops are vectorised.
template <bool kUnit, int64_t kStep, class T>
void TurnRow(int64_t pairs, int64_t apart, T direction, Row<const T> x, Row<const T> cos, Row<const T> sin, Row<T> out) {
  const int64_t x_step = kUnit ? 1 : x.stride, out_step = kUnit ? 1 : out.stride;
  const int64_t cos_step = kUnit ? 1 : cos.stride, sin_step = kUnit ? 1 : sin.stride;
  const T* x_second = x.data + apart * x_step;
  T* out_second = out.data + apart * out_step;
  // out may be x: what an iteration reads no other one writes.
#ifdef __clang__
#pragma clang loop vectorize(assume_safety)
#else
#pragma GCC ivdep
#endif
  for (int64_t t = 0; t < pairs; ++t) {
    const T first = x.data[kStep * t * x_step], second = x_second[kStep * t * x_step];
    const T c = cos.data[t * cos_step], s = direction * sin.data[t * sin_step];
    out.data[kStep * t * out_step] = first * c - second * s;
    out_second[kStep * t * out_step] = second * c + first * s;
  }
}

// Elements of x in one task: work is cut by the shape alone, and a task outweighs the cost of handing it out.
constexpr int64_t kTaskElements = 16384;

template <class T>
void Apply(const Rotation& rotation, const View<const T, 4>& x, const View<const T, 3>& cos, const View<const T, 3>& sin,
           const View<T, 4>& out, Executor& executor) {
  CheckRotation(x, cos, sin, out);
  const int64_t heads = x.extent[1], steps = x.extent[2], width = x.extent[3], pairs = cos.extent[2];
  const int64_t rows = x.extent[0] * heads * steps;
  if (rows == 0 || width == 0) return;
  const bool unit = x.stride[3] == 1 && out.stride[3] == 1 && cos.stride[2] == 1 && sin.stride[2] == 1;
  const bool in_place = IsSame(x, out);
  const bool half = rotation.layout == RotaryLayout::kHalf;
  const auto turn =
      half ? (unit ? &TurnRow<true, 1, T> : &TurnRow<false, 1, T>) : (unit ? &TurnRow<true, 2, T> : &TurnRow<false, 2, T>);
  const T direction = rotation.inverse ? T(-1) : T(1);

  const int64_t rows_per_task = std::max<int64_t>(1, kTaskElements / width);
  core::RunTasks(executor, (rows - 1) / rows_per_task + 1, [&](int64_t task) {
    const int64_t end = std::min(rows, (task + 1) * rows_per_task);
    for (int64_t row = task * rows_per_task; row < end; ++row) {
      const int64_t i = row % steps, h = row / steps % heads, b = row / steps / heads;
      const int64_t b_cos = cos.extent[0] == 1 ? 0 : b, b_sin = sin.extent[0] == 1 ? 0 : b;
      const Row<const T> from{x.data + b * x.stride[0] + h * x.stride[1] + i * x.stride[2], x.stride[3]};
      const Row<T> to{out.data + b * out.stride[0] + h * out.stride[1] + i * out.stride[2], out.stride[3]};
      turn(pairs, half ? pairs : 1, direction, from, {cos.data + b_cos * cos.stride[0] + i * cos.stride[1], cos.stride[2]},
           {sin.data + b_sin * sin.stride[0] + i * sin.stride[1], sin.stride[2]}, to);
      if (in_place) continue;
      for (int64_t c = 2 * pairs; c < width; ++c) to.data[c * to.stride] = from.data[c * from.stride];
    }
  });
}

}  // namespace

void RotaryTable(const RotaryFrequencies& frequencies, View<const int64_t, 1> positions, View<float, 2> cos,
                 View<float, 2> sin) {
  TableOfList(frequencies, positions, cos, sin);
}

void RotaryTable(const RotaryFrequencies& frequencies, View<const int64_t, 1> positions, View<double, 2> cos,
                 View<double, 2> sin) {
  TableOfList(frequencies, positions, cos, sin);
}

void RotaryTable(const RotaryFrequencies& frequencies, View<const double, 1> positions, View<float, 2> cos,
                 View<float, 2> sin) {
  TableOfList(frequencies, positions, cos, sin);
}

void RotaryTable(const RotaryFrequencies& frequencies, View<const double, 1> positions, View<double, 2> cos,
                 View<double, 2> sin) {
  TableOfList(frequencies, positions, cos, sin);
}

void RotaryTable(const RotaryFrequencies& frequencies, int64_t first_position, View<float, 2> cos, View<float, 2> sin) {
  TableFrom(frequencies, first_position, cos, sin);
}

void RotaryTable(const RotaryFrequencies& frequencies, int64_t first_position, View<double, 2> cos, View<double, 2> sin) {
  TableFrom(frequencies, first_position, cos, sin);
}

void ApplyRotary(const Rotation& rotation, View<const float, 4> x, View<const float, 3> cos, View<const float, 3> sin,
                 View<float, 4> out, Executor& executor) {
  Apply(rotation, x, cos, sin, out, executor);
}

void ApplyRotary(const Rotation& rotation, View<const double, 4> x, View<const double, 3> cos, View<const double, 3> sin,
                 View<double, 4> out, Executor& executor) {
  Apply(rotation, x, cos, sin, out, executor);
}

}  // namespace heed
