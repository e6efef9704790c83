// A number that tells whether two arrays have the same bits.
#ifndef HEED_REFERENCE_BITS_HASH_H_
#define HEED_REFERENCE_BITS_HASH_H_

#include <bit>
#include <cstdint>
#include <type_traits>

#include "heed/element.h"

namespace heed::reference {

// FNV-1a of 64 bits, number by number (Fowler, Noll and Vo). NaN is one number: its bits say which operand it came from, and
// processors differ in that.
class BitsHash {
 public:
  template <class T>
  void Add(T value) {
    if constexpr (std::is_integral_v<T>) {
      Mix(static_cast<uint64_t>(value));
    } else if constexpr (std::is_same_v<T, float>) {
      Mix(value == value ? std::bit_cast<uint32_t>(value) : kNan);
    } else if constexpr (std::is_same_v<T, double>) {
      Mix(value == value ? std::bit_cast<uint64_t>(value) : kNan);
    } else {
      const float wide = ToFloat(value);
      Mix(wide == wide ? value.bits : kNan);
    }
  }
  template <class Array>
  void AddAll(const Array& array) {
    for (const auto& value : array) Add(value);
  }
  uint64_t value() const { return hash_; }

 private:
  static constexpr uint64_t kNan = 0x4E614E;

  void Mix(uint64_t word) {
    for (int byte = 0; byte < 8; ++byte) hash_ = (hash_ ^ (word >> (8 * byte) & 0xFF)) * 0x100000001B3;
  }

  uint64_t hash_ = 0xCBF29CE484222325;
};

}  // namespace heed::reference

#endif  // HEED_REFERENCE_BITS_HASH_H_
