// The engine's options from the arrays and settings of a call.
#ifndef HEED_PYTHON_SRC_JAX_OPTIONS_H_
#define HEED_PYTHON_SRC_JAX_OPTIONS_H_

#include <cstdint>
#include <deque>
#include <string_view>
#include <vector>

#include "call.h"
#include "heed/attention.h"

namespace heed::jax {

// A is the accumulator. The options refer to the arrays of the call and to integers that this object holds.
template <class A>
class Options {
 public:
  // Throws InvalidArgument for settings that are none of the engine's choices.
  explicit Options(const CallSlice& slice);
  Options(const Options&) = delete;
  Options& operator=(const Options&) = delete;

  const Attention& attention() const { return attention_; }

 private:
  void ReadSettings(const Settings& settings);
  void ReadPlaces(const CallSlice& slice);
  void ReadTables(const CallSlice& slice);
  View<const int64_t, 2> Rows(const CallSlice& slice, std::string_view name);  // absent where the array is
  View<const int64_t, 1> Offsets(const CallSlice& slice, std::string_view name, std::string_view operand);
  Positions PositionsOf(const CallSlice& slice, std::string_view list, std::string_view offset);

  Attention attention_;
  std::deque<std::vector<int64_t>> integers_;
};

// The integers of an array [n]; without the array, 0 .. count - 1.
class Indices {
 public:
  Indices(const CallSlice& slice, std::string_view name, int64_t count);
  View<const int64_t, 1> view() const;

 private:
  std::vector<int64_t> values_;
};

}  // namespace heed::jax

#endif  // HEED_PYTHON_SRC_JAX_OPTIONS_H_
