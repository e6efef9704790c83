// Philox4x32-10 (Salmon et al. 2011, "Parallel Random Numbers: As Easy as 1, 2, 3") for a vector of queries at once.
#if defined(HEED_SIMD_PHILOX_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_SIMD_PHILOX_INL_H_
#undef HEED_SIMD_PHILOX_INL_H_
#else
#define HEED_SIMD_PHILOX_INL_H_
#endif

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// What is common to the weights of one head. The counter of weight (query i, key j) is
//   word 0: low 32 bits of i      word 1: low 32 bits of j / 8      word 2: batch index
//   word 3: head | high 8 bits of i << 16 | high 8 bits of j / 8 << 24
// and the 16 bits of key j stand in word (j % 8) / 2 of the result, low half first.
struct DropoutStream {
  uint64_t seed;
  uint32_t batch;
  uint32_t head;
  uint32_t threshold;              // 0 .. 65535: a weight is dropped where its 16 bits are below this
  int64_t first_query, first_key;  // the indices of the call's first ones
};

#if HWY_TARGET == HWY_SCALAR
// One lane: Highway's 64-bit products need two, so plain integers do the same rounds.
template <class D>
HWY_INLINE void DroppedMasks(D d, const DropoutStream& stream, int64_t query, int64_t key, hn::Mask<D> dropped[8]) {
  const auto i = static_cast<uint64_t>(query), block = static_cast<uint64_t>(key) / 8;
  uint32_t x0 = static_cast<uint32_t>(i), x1 = static_cast<uint32_t>(block), x2 = stream.batch;
  uint32_t x3 = static_cast<uint32_t>(stream.head | (i >> 32) << 16 | (block >> 32) << 24);
  auto key0 = static_cast<uint32_t>(stream.seed), key1 = static_cast<uint32_t>(stream.seed >> 32);
  for (int round = 0; round < 10; ++round) {
    const uint64_t product0 = uint64_t{0xD2511F53u} * x0, product1 = uint64_t{0xCD9E8D57u} * x2;
    x0 = static_cast<uint32_t>(product1 >> 32) ^ x1 ^ key0;
    x2 = static_cast<uint32_t>(product0 >> 32) ^ x3 ^ key1;
    x1 = static_cast<uint32_t>(product1);
    x3 = static_cast<uint32_t>(product0);
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
  const uint32_t words[4] = {x0, x1, x2, x3};
  using T = hn::TFromD<D>;
  for (int m = 0; m < 8; ++m) {
    const uint32_t bits = m % 2 == 0 ? words[m / 2] & 0xFFFFu : words[m / 2] >> 16;
    dropped[m] = hn::Eq(hn::Set(d, static_cast<T>(bits < stream.threshold ? 1 : 0)), hn::Set(d, T{1}));
  }
}
#else
// Ten rounds on counters held in the low halves of 64-bit lanes; the high halves are ignored.
template <class DU64, class V = hn::Vec<DU64> >
HWY_INLINE void Philox(DU64 d64, uint64_t seed, V& x0, V& x1, V& x2, V& x3) {
  const hn::Repartition<uint32_t, DU64> d32;
  const auto multiplier0 = hn::Set(d32, 0xD2511F53u), multiplier1 = hn::Set(d32, 0xCD9E8D57u);
  auto key0 = static_cast<uint32_t>(seed), key1 = static_cast<uint32_t>(seed >> 32);
  for (int round = 0; round < 10; ++round) {
    const V product0 = hn::MulEven(hn::BitCast(d32, x0), multiplier0);
    const V product1 = hn::MulEven(hn::BitCast(d32, x2), multiplier1);
    x0 = hn::Xor(hn::Xor(hn::ShiftRight<32>(product1), x1), hn::Set(d64, uint64_t{key0}));
    x2 = hn::Xor(hn::Xor(hn::ShiftRight<32>(product0), x3), hn::Set(d64, uint64_t{key1}));
    x1 = product1;
    x3 = product0;
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
}

// Counters of the queries in `queries` (64-bit lanes) for the eight keys from `key`, advanced to random words.
template <class DU64, class V = hn::Vec<DU64> >
HWY_INLINE void RandomWords(DU64 d64, const DropoutStream& stream, V queries, int64_t key, V words[4]) {
  const auto block = static_cast<uint64_t>(key) / 8;
  words[0] = queries;
  words[1] = hn::Set(d64, block & 0xFFFFFFFFu);
  words[2] = hn::Set(d64, uint64_t{stream.batch});
  const V high = hn::ShiftLeft<16>(hn::ShiftRight<32>(queries));
  words[3] = hn::Or(high, hn::Set(d64, uint64_t{stream.head} | (block >> 32) << 24));
  Philox(d64, stream.seed, words[0], words[1], words[2], words[3]);
}

// For the weights of Lanes(d) neighbouring queries with the eight keys from `key` (a multiple of 8): dropped[m] is true where
// the weight with key + m is dropped. Float lanes: even and odd queries run in two halves.
template <class D>
  requires(sizeof(hn::TFromD<D>) == 4)
HWY_INLINE void DroppedMasks(D d, const DropoutStream& stream, int64_t query, int64_t key, hn::Mask<D> dropped[8]) {
  const hn::RebindToUnsigned<D> d32;
  const hn::Repartition<uint64_t, decltype(d32)> d64;
  using V = hn::Vec<decltype(d64)>;
  const V first = hn::Add(hn::Set(d64, static_cast<uint64_t>(query)), hn::ShiftLeft<1>(hn::Iota(d64, 0)));
  V even[4], odd[4];
  RandomWords(d64, stream, first, key, even);
  RandomWords(d64, stream, hn::Add(first, hn::Set(d64, uint64_t{1})), key, odd);
  const auto limit = hn::Set(d32, stream.threshold << 16);
  HWY_UNROLL(4)
  for (int w = 0; w < 4; ++w) {
    const auto word = hn::OddEven(hn::BitCast(d32, hn::ShiftLeft<32>(odd[w])), hn::BitCast(d32, even[w]));
    dropped[2 * w] = hn::RebindMask(d, hn::Gt(limit, hn::ShiftLeft<16>(word)));
    dropped[2 * w + 1] = hn::RebindMask(d, hn::Gt(limit, word));
  }
}

template <class D>
  requires(sizeof(hn::TFromD<D>) == 8)
HWY_INLINE void DroppedMasks(D d, const DropoutStream& stream, int64_t query, int64_t key, hn::Mask<D> dropped[8]) {
  const hn::RebindToUnsigned<D> d64;
  hn::Vec<decltype(d64)> words[4];
  RandomWords(d64, stream, hn::Add(hn::Set(d64, static_cast<uint64_t>(query)), hn::Iota(d64, 0)), key, words);
  const auto limit = hn::Set(d64, uint64_t{stream.threshold} << 16);
  const auto low_word = hn::Set(d64, uint64_t{0xFFFFFFFFu});
  HWY_UNROLL(4)
  for (int w = 0; w < 4; ++w) {
    const auto word = hn::And(words[w], low_word);
    dropped[2 * w] = hn::RebindMask(d, hn::Gt(limit, hn::And(hn::ShiftLeft<16>(word), low_word)));
    dropped[2 * w + 1] = hn::RebindMask(d, hn::Gt(limit, word));
  }
}
#endif  // HWY_TARGET == HWY_SCALAR

}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
