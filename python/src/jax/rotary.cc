// XLA's handlers of rotary positions: tables from positions, and the rotation.
#include "heed/rotary.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "call.h"
#include "rotary_options.h"
#include "threads.h"

namespace heed::jax {
namespace {

// From 2^53 on a double no longer counts.
constexpr double kFarthest = 9007199254740992.0;

// The positions of one array, whole or real, one after the other.
struct PositionList {
  std::vector<int64_t> whole;
  View<const double, 1> real;  // absent where they are whole

  PositionList(const CallSlice& slice, std::string_view name) {
    const Array& array = slice.Get(name);
    if (array.type == DataType::F64) {
      const View<const double, 2> list = slice.Input<double, 2>(name);
      real = View<const double, 1>::Contiguous(list.data, {list.size()});
    } else {
      whole = slice.Integers(array);
    }
  }

  // The largest + 1, whole; at least 0.
  int64_t Length() const {
    double largest = -1.0;
    for (const int64_t position : whole) largest = std::max(largest, static_cast<double>(position));
    for (int64_t i = 0; i < real.extent[0]; ++i) {
      if (std::isnan(real(i))) return 0;  // refused by name where its row of the tables is computed
      largest = std::max(largest, real(i));
    }
    if (largest >= kFarthest) throw InvalidArgument("positions: expected numbers below 2^53, got " + std::to_string(largest));
    return std::max<int64_t>(0, static_cast<int64_t>(std::floor(largest)) + 1);
  }
};

// A table [B, N, R] of a slice as one [B * N, R].
template <class T>
View<T, 2> TableRows(const CallSlice& slice, std::string_view name) {
  const View<T, 3> table = slice.Result<T, 3>(name);
  return View<T, 2>::Contiguous(table.data, {table.extent[0] * table.extent[1], table.extent[2]});
}

template <class T>
void FillTables(const RotaryFrequencies& frequencies, const PositionList& list, const View<T, 2>& cos, const View<T, 2>& sin) {
  static constexpr int64_t kNowhere = 0;
  if (list.real.present()) return RotaryTable(frequencies, list.real, cos, sin);
  const int64_t* first = list.whole.empty() ? &kNowhere : list.whole.data();
  RotaryTable(frequencies, View<const int64_t, 1>::Contiguous(first, {std::ssize(list.whole)}), cos, sin);
}

// positions [B, N] -> cos, sin [B, N, R]; where frequencies depend on the length of the text, `others` are its further
// positions.
void MakeTables(Call& call) {
  const RotaryOptions options = RotaryOptionsOf(call.settings);
  const DataType type = call.results.Get("cos").type;
  ForEachSlice(call, [&](const CallSlice& slice) {
    const PositionList list(slice, "positions");
    int64_t length = 0;
    if (DependsOnLength(options.scaling)) {
      length = list.Length();
      if (slice.Find("others")) length = std::max(length, PositionList(slice, "others").Length());
    }
    const RotaryFrequencies frequencies = ComputeRotaryFrequencies(options, length);
    if (type == DataType::F64) {
      FillTables(frequencies, list, TableRows<double>(slice, "cos"), TableRows<double>(slice, "sin"));
    } else {
      FillTables(frequencies, list, TableRows<float>(slice, "cos"), TableRows<float>(slice, "sin"));
    }
  });
}

template <class T>
void RotateSlices(const Call& call) {
  const Rotation rotation{call.settings.Text("layout", "half") == "half" ? RotaryLayout::kHalf : RotaryLayout::kInterleaved,
                          call.settings.Flag("inverse")};
  const std::shared_ptr<Executor> executor = SharedThreads();
  ForEachSlice(call, [&](const CallSlice& slice) {
    ApplyRotary(rotation, slice.TokensIn<T>("x"), slice.Input<T, 3>("cos"), slice.Input<T, 3>("sin"), slice.TokensOut<T>("out"),
                *executor);
  });
}

void Rotate(Call& call) { call.inputs.Get("x").type == DataType::F64 ? RotateSlices<double>(call) : RotateSlices<float>(call); }

}  // namespace
}  // namespace heed::jax

HEED_JAX_HANDLER(heed_jax_rotary_tables, heed::jax::MakeTables);
HEED_JAX_HANDLER(heed_jax_rotary, heed::jax::Rotate);
