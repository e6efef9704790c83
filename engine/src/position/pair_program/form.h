// What a call says of positions, as programs ask for it.
#ifndef HEED_POSITION_PAIR_PROGRAM_FORM_H_
#define HEED_POSITION_PAIR_PROGRAM_FORM_H_

#include <cstdint>

#include "attention/plan.h"
#include "heed/attention.h"
#include "program/code.h"
#include "program/evaluation.h"
#include "program/table_reader.h"

namespace heed::position {

class PairForm {
 public:
  PairForm(const Attention& attention, const Shape& shape) : attention_(attention), shape_(shape), order_(attention, shape) {}

  const Shape& shape() const { return shape_; }
  program::PositionForm positions() const {
    const auto rows = [](const Positions& given) {
      return std::visit(
          [](const auto& list) {
            if constexpr (std::is_same_v<std::remove_cvref_t<decltype(list)>, std::monostate>)
              return int64_t{1};
            else
              return list.extent[0];
          },
          given.list);
    };
    const bool per_row = rows(attention_.query_positions) > 1 || rows(attention_.key_positions) > 1;
    return {.listed = order_.listed(), .per_row = per_row, .packed = attention_.packed.present()};
  }

  // How many values there are along an axis.
  int64_t Length(program::Axis axis) const {
    switch (axis) {
      case program::Axis::kQuery:
        return shape_.q_len;
      case program::Axis::kKey:
        return shape_.kv_len;
      case program::Axis::kOffset:
        return std::max<int64_t>(0, shape_.q_len + shape_.kv_len - 1);
      default:
        return 1;
    }
  }
  int64_t Rows(const program::Domain& domain) const {
    return (domain.batch ? shape_.batch : 1) * (domain.head ? shape_.q_heads : 1);
  }
  // The row of values that belongs to a batch row and a head.
  int64_t Row(const program::Domain& domain, int64_t b, int64_t h) const {
    return (domain.batch ? b : 0) * (domain.head ? shape_.q_heads : 1) + (domain.head ? h : 0);
  }
  // Values along offsets lie by descending key - query: neighbouring queries are neighbours. Where that of an offset lies.
  int64_t PlaceOfOffset(int64_t offset) const { return shape_.kv_len - 1 - offset; }

  // A stretch of `count` values from place `first` on; along offsets they come in the reverse order.
  program::Stretch StretchOf(program::Axis axis, int64_t b, int64_t h, int64_t first, int64_t count) const {
    const auto length = [&](const View<const int64_t, 1>& offsets, int64_t all) {
      return offsets.present() ? offsets(b + 1) - offsets(b) : all;
    };
    const auto& packed = attention_.packed;
    program::Stretch stretch{.axis = axis, .b = b, .h = h, .first = first, .count = count};
    if (axis == program::Axis::kOffset) stretch.first = shape_.kv_len - first - count;
    if (order_.listed()) {
      stretch.query_positions = order_.QueryPositions(b);
      stretch.key_positions = order_.KeyPositions(b);
    } else if (shape_.batch > 0) {
      const int64_t origin = attention_.key_positions.offset.value_or(0);
      stretch.key_origin = static_cast<double>(origin);
      stretch.query_origin = static_cast<double>(
          origin - order_.FirstOffset(length(packed.query_offsets, shape_.q_len), length(packed.key_offsets, shape_.kv_len)));
    }
    return stretch;
  }

 private:
  const Attention& attention_;
  Shape shape_;
  attention::Order order_;
};

// Readers of the tables that a program uses.
inline program::TableReaders ReadersOf(const program::Code& code, const std::vector<ProgramTable>& tables) {
  program::TableReaders readers;
  for (std::size_t place = 0; place < tables.size(); ++place) {
    const program::Code::TableUse use = place < code.tables().size() ? code.tables()[place] : program::Code::TableUse{};
    readers.emplace_back(tables[place], use.kind, use.dimensions == 0 ? 4 : use.dimensions);
  }
  return readers;
}

}  // namespace heed::position

#endif  // HEED_POSITION_PAIR_PROGRAM_FORM_H_
