// The 16-bit types of arrays. heed reads and writes them and computes in float.
#ifndef HEED_ELEMENT_H_
#define HEED_ELEMENT_H_

#include <cstdint>

namespace heed {

// The upper half of a float: 8 bits of exponent, 7 of fraction.
struct BFloat16 {
  uint16_t bits;

  explicit operator double() const;
};

// IEEE 754 binary16: 5 bits of exponent, 10 of fraction.
struct Float16 {
  uint16_t bits;

  explicit operator double() const;
};

// Round to nearest, ties to even. NaN stays NaN; larger numbers than the type's become infinity.
BFloat16 ToBFloat16(float value);
Float16 ToFloat16(float value);
float ToFloat(BFloat16 value);
float ToFloat(Float16 value);

inline BFloat16::operator double() const { return ToFloat(*this); }
inline Float16::operator double() const { return ToFloat(*this); }

// The type that a call with elements T accumulates in: double for double, float for all others.
template <class T>
struct Accumulator {
  using Type = float;
};
template <>
struct Accumulator<double> {
  using Type = double;
};
template <class T>
using Accum = typename Accumulator<T>::Type;

}  // namespace heed

#endif  // HEED_ELEMENT_H_
