#include "program/operation.h"

#include <array>

namespace heed::program {

const OperationFacts& FactsOf(Operation operation) {
  static constexpr std::array<OperationFacts, kOperations> kFacts{{
      {"score", 0, Typing::kLeaf, Kind::kReal},
      {"batch", 0, Typing::kLeaf, Kind::kWhole},
      {"head", 0, Typing::kLeaf, Kind::kWhole},
      {"query", 0, Typing::kLeaf, Kind::kWhole},
      {"key", 0, Typing::kLeaf, Kind::kWhole},
      {"query_position", 0, Typing::kLeaf, Kind::kReal},
      {"key_position", 0, Typing::kLeaf, Kind::kReal},
      {"constant", 0, Typing::kLeaf, Kind::kReal},
      {"read", -1, Typing::kLeaf, Kind::kReal},
      {"dot", -1, Typing::kLeaf, Kind::kReal},
      {"add", 2, Typing::kArithmetic, Kind::kReal},
      {"subtract", 2, Typing::kArithmetic, Kind::kReal},
      {"multiply", 2, Typing::kArithmetic, Kind::kReal},
      {"divide", 2, Typing::kReal, Kind::kReal},
      {"floor_divide", 2, Typing::kArithmetic, Kind::kReal},
      {"remainder", 2, Typing::kArithmetic, Kind::kReal},
      {"power", 2, Typing::kReal, Kind::kReal},
      {"minimum", 2, Typing::kArithmetic, Kind::kReal},
      {"maximum", 2, Typing::kArithmetic, Kind::kReal},
      {"negate", 1, Typing::kArithmetic, Kind::kReal},
      {"absolute", 1, Typing::kArithmetic, Kind::kReal},
      {"floor", 1, Typing::kArithmetic, Kind::kReal},
      {"truncate", 1, Typing::kWhole, Kind::kReal},
      {"exp", 1, Typing::kReal, Kind::kReal},
      {"exp2", 1, Typing::kReal, Kind::kReal},
      {"log", 1, Typing::kReal, Kind::kReal},
      {"log1p", 1, Typing::kReal, Kind::kReal},
      {"sqrt", 1, Typing::kReal, Kind::kReal},
      {"reciprocal", 1, Typing::kReal, Kind::kReal},
      {"tanh", 1, Typing::kReal, Kind::kReal},
      {"sigmoid", 1, Typing::kReal, Kind::kReal},
      {"erf", 1, Typing::kReal, Kind::kReal},
      {"sin", 1, Typing::kReal, Kind::kReal},
      {"cos", 1, Typing::kReal, Kind::kReal},
      {"less", 2, Typing::kComparison, Kind::kReal},
      {"less_equal", 2, Typing::kComparison, Kind::kReal},
      {"equal", 2, Typing::kComparison, Kind::kReal},
      {"not_equal", 2, Typing::kComparison, Kind::kReal},
      {"and", 2, Typing::kLogic, Kind::kReal},
      {"or", 2, Typing::kLogic, Kind::kReal},
      {"not", 1, Typing::kLogic, Kind::kReal},
      {"bit_and", 2, Typing::kWhole, Kind::kReal},
      {"bit_or", 2, Typing::kWhole, Kind::kReal},
      {"bit_xor", 2, Typing::kWhole, Kind::kReal},
      {"select", 3, Typing::kSelection, Kind::kReal},
      {"query_origin", 0, Typing::kLeaf, Kind::kWhole},
      {"key_origin", 0, Typing::kLeaf, Kind::kWhole},
      {"score_bits", 0, Typing::kLeaf, Kind::kReal},
      {"gradient", 0, Typing::kLeaf, Kind::kReal},
      {"kept", 0, Typing::kLeaf, Kind::kReal},
      {"scaled", 2, Typing::kReal, Kind::kReal},
      {"below", 2, Typing::kReal, Kind::kReal},
      {"multiply_add", 3, Typing::kReal, Kind::kReal},
      {"multiply_subtract", 3, Typing::kReal, Kind::kReal},
      {"subtract_product", 3, Typing::kReal, Kind::kReal},
      {"scaled_add", 3, Typing::kReal, Kind::kReal},
  }};
  return kFacts[static_cast<std::size_t>(operation)];
}

}  // namespace heed::program
