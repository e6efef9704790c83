// What the table of cases is made of, and what option_cost_bench times.
#ifndef HEED_REFERENCE_CASE_TABLE_H_
#define HEED_REFERENCE_CASE_TABLE_H_

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "reference/cases.h"

namespace heed::reference {

class CaseTable {
 public:
  // Adds a row: shapes in the order batch, query heads, key heads, queries, keys, key width, value width.
  template <class... Set>
  void Add(std::string name, Shape shape, Set... set) {
    Case c{};
    c.name = std::move(name);
    c.shape = shape;
    (set(c), ...);
    rows_.push_back(std::move(c));
  }
  const std::vector<Case>& rows() const { return rows_; }

 private:
  std::vector<Case> rows_;
};

// A row of option_cost_bench beside the plain call: what a case of the plain call's shape asks for.
struct Cost {
  std::string name;
  std::function<void(Case&)> set;
};

// What rows say of a call: each takes a value and returns what sets it.
namespace given {

inline constexpr auto causal = [](Causal value) { return [value](Case& c) { c.causal = value; }; };
inline constexpr auto keys = [](LengthKind value) { return [value](Case& c) { c.key_lengths = value; }; };
inline constexpr auto queries = [](Case& c) { c.query_lengths = true; };
inline constexpr auto dropout = [](double p) { return [p](Case& c) { c.dropout = p; }; };
inline constexpr auto uniform = [](Case& c) { c.empty_row = EmptyRow::kUniform; };
inline constexpr auto layout = [](Layout value) { return [value](Case& c) { c.layout = value; }; };
inline constexpr auto scale = [](double value) { return [value](Case& c) { c.scale = value; }; };
inline constexpr auto offsets = [](int64_t q, int64_t k) { return [q, k](Case& c) { c.query_offset = q, c.key_offset = k; }; };
inline constexpr auto window = [](int64_t left, int64_t right) { return [left, right](Case& c) { c.window = {left, right}; }; };
inline constexpr auto prefix = [](Case& c) { c.prefix = true; };
inline constexpr auto packed = [](Case& c) { c.packed = true; };
inline constexpr auto positions = [](PositionKind value) { return [value](Case& c) { c.positions = value; }; };
inline constexpr auto mask = [](int ones) { return [ones](Case& c) { c.mask = ones; }; };
inline constexpr auto weights = [](Case& c) { c.weights = true; };
inline constexpr auto lse_gradient = [](Case& c) { c.lse_gradient = true; };
inline constexpr auto statistic_gradients = [](Case& c) { c.statistics = c.statistic_gradients = true; };
inline constexpr auto bare = [](Case& c) { c.statistics = false; };
inline constexpr auto spoiled = [](Case& c) { c.spoiled = true; };
inline constexpr auto softcap = [](double value) { return [value](Case& c) { c.softcap = value; }; };

}  // namespace given

}  // namespace heed::reference

#endif  // HEED_REFERENCE_CASE_TABLE_H_
