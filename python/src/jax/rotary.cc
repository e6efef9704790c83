// XLA's handlers of rotary positions: tables from positions, and the rotation.
#include "heed/rotary.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>

#include "call.h"
#include "options.h"
#include "threads.h"

namespace heed::jax {
namespace {

// From 2^53 on a double no longer counts.
constexpr double kFarthest = 9007199254740992.0;

template <class T>
View<T, 1> Flat(const View<T, 2>& list) {
  return View<T, 1>::Contiguous(list.data, {list.size()});
}

// Of positions, whole or real, the largest + 1, whole; at least 0.
template <class T>
int64_t LengthOf(const View<T, 1>& positions) {
  double largest = -1.0;
  for (int64_t i = 0; i < positions.extent[0]; ++i) {
    const auto position = static_cast<double>(positions(i));
    if (std::isnan(position)) return 0;  // refused by name where its row of the tables is computed
    largest = std::max(largest, position);
  }
  if (largest >= kFarthest) throw InvalidArgument("positions: expected numbers below 2^53, got " + std::to_string(largest));
  return std::max<int64_t>(0, static_cast<int64_t>(std::floor(largest)) + 1);
}

// Calls take(the positions of an array [B, N]), one after the other.
template <class Take>
auto WithPositions(Call& call, std::string_view name, const Take& take) {
  return call.Find(name)->type == DataType::F64 ? take(Flat(call.Dense<const double, 2>(name)))
                                                : take(Flat(call.Integers<2>(name)));
}

// A table [B, N, R] of a slice as one [B * N, R].
template <class T>
View<T, 2> TableRows(const Call& call, std::string_view name) {
  const View<T, 3> table = call.Dense<T, 3>(name);
  return View<T, 2>::Contiguous(table.data, {table.extent[0] * table.extent[1], table.extent[2]});
}

// positions [B, N] -> cos, sin [B, N, R]; where frequencies depend on the length of the text, `others` are its further
// positions.
void MakeTables(Call& call) {
  const RotaryOptions options = RotaryOptionsOf(call.settings);
  call.ForEachSlice([&] {
    int64_t length = 0;
    for (const char* name : {"positions", "others"}) {
      if (DependsOnLength(options.scaling) && call.Find(name))
        length = std::max(length, WithPositions(call, name, [](const auto& list) { return LengthOf(list); }));
    }
    const RotaryFrequencies frequencies = ComputeRotaryFrequencies(options, length);
    WithPositions(call, "positions", [&](const auto& list) {
      if (call.FindResult("cos")->type == DataType::F64) {
        RotaryTable(frequencies, list, TableRows<double>(call, "cos"), TableRows<double>(call, "sin"));
      } else {
        RotaryTable(frequencies, list, TableRows<float>(call, "cos"), TableRows<float>(call, "sin"));
      }
    });
  });
}

template <class T>
void RotateSlices(Call& call) {
  const Rotation rotation{call.settings.Text("layout") == "half" ? RotaryLayout::kHalf : RotaryLayout::kInterleaved,
                          call.settings.Flag("inverse")};
  const std::shared_ptr<Executor> executor = SharedThreads();
  call.ForEachSlice([&] {
    ApplyRotary(rotation, call.Tokens<const T>("x"), call.Dense<const T, 3>("cos"), call.Dense<const T, 3>("sin"),
                call.Tokens<T>("out"), *executor);
  });
}

void Rotate(Call& call) { call.Find("x")->type == DataType::F64 ? RotateSlices<double>(call) : RotateSlices<float>(call); }

}  // namespace
}  // namespace heed::jax

HEED_JAX_HANDLER(heed_jax_rotary_tables, heed::jax::MakeTables);
HEED_JAX_HANDLER(heed_jax_rotary, heed::jax::Rotate);
