// Philox4x32-10 (Salmon et al. 2011, "Parallel Random Numbers: As Easy as 1, 2, 3") for a vector of queries at once, or for
// a vector of blocks of eight keys.
#if defined(HEED_SIMD_PHILOX_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_SIMD_PHILOX_INL_H_
#undef HEED_SIMD_PHILOX_INL_H_
#else
#define HEED_SIMD_PHILOX_INL_H_
#endif

#include <cstdint>
#include <cstring>

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
inline void RandomWords(const DropoutStream& stream, int64_t query, int64_t key, uint32_t words[4]) {
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
  words[0] = x0, words[1] = x1, words[2] = x2, words[3] = x3;
}

template <class D>
HWY_INLINE void DroppedMasks(D d, const DropoutStream& stream, int64_t query, int64_t key, hn::Mask<D> dropped[8]) {
  uint32_t words[4];
  RandomWords(stream, query, key, words);
  using T = hn::TFromD<D>;
  for (int m = 0; m < 8; ++m) {
    const uint32_t bits = m % 2 == 0 ? words[m / 2] & 0xFFFFu : words[m / 2] >> 16;
    dropped[m] = hn::Eq(hn::Set(d, static_cast<T>(bits < stream.threshold ? 1 : 0)), hn::Set(d, T{1}));
  }
}

template <class D>
HWY_INLINE void DroppedMasksOf(D d, DropoutStream stream, const int64_t* queries, const int64_t* heads, int64_t key,
                               hn::Mask<D> dropped[8]) {
  stream.head += static_cast<uint32_t>(*heads);
  DroppedMasks(d, stream, stream.first_query + *queries, key, dropped);
}

inline void DrawRow(const DropoutStream& stream, int64_t query, int64_t key, int64_t blocks, uint16_t* drawn) {
  for (int64_t block = 0; block < blocks; ++block) {
    uint32_t words[4];
    RandomWords(stream, query, key + 8 * block, words);
    for (int m = 0; m < 8; ++m) drawn[8 * block + m] = static_cast<uint16_t>(words[m / 2] >> (m % 2 * 16));
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

// Counters of queries, heads and blocks of eight keys (64-bit lanes), advanced to random words.
template <class DU64, class V = hn::Vec<DU64> >
HWY_INLINE void RandomWords(DU64 d64, const DropoutStream& stream, V queries, V heads, V blocks, V words[4]) {
  words[0] = queries;
  words[1] = blocks;
  words[2] = hn::Set(d64, uint64_t{stream.batch});
  const V high = hn::ShiftLeft<16>(hn::ShiftRight<32>(queries));
  words[3] = hn::Or(hn::Or(high, heads), hn::ShiftLeft<24>(hn::ShiftRight<32>(blocks)));
  Philox(d64, stream.seed, words[0], words[1], words[2], words[3]);
}
// Those of queries of the stream's head for the eight keys from `key`.
template <class DU64, class V = hn::Vec<DU64> >
HWY_INLINE void RandomWords(DU64 d64, const DropoutStream& stream, V queries, int64_t key, V words[4]) {
  RandomWords(d64, stream, queries, hn::Set(d64, uint64_t{stream.head}), hn::Set(d64, static_cast<uint64_t>(key) / 8), words);
}

// The masks of eight keys from the words of even and odd queries.
template <class D, class V>
HWY_INLINE void MasksOfWords(D d, const DropoutStream& stream, const V even[4], const V odd[4], hn::Mask<D> dropped[8]) {
  const hn::RebindToUnsigned<D> d32;
  const auto limit = hn::Set(d32, stream.threshold << 16);
  HWY_UNROLL(4)
  for (int w = 0; w < 4; ++w) {
    const auto word = hn::OddEven(hn::BitCast(d32, hn::ShiftLeft<32>(odd[w])), hn::BitCast(d32, even[w]));
    dropped[2 * w] = hn::RebindMask(d, hn::Gt(limit, hn::ShiftLeft<16>(word)));
    dropped[2 * w + 1] = hn::RebindMask(d, hn::Gt(limit, word));
  }
}
// The same of words of one query a lane.
template <class D, class V>
HWY_INLINE void MasksOfWords(D d, const DropoutStream& stream, const V words[4], hn::Mask<D> dropped[8]) {
  const hn::RebindToUnsigned<D> d64;
  const auto limit = hn::Set(d64, uint64_t{stream.threshold} << 16);
  const auto low_word = hn::Set(d64, uint64_t{0xFFFFFFFFu});
  HWY_UNROLL(4)
  for (int w = 0; w < 4; ++w) {
    const auto word = hn::And(words[w], low_word);
    dropped[2 * w] = hn::RebindMask(d, hn::Gt(limit, hn::And(hn::ShiftLeft<16>(word), low_word)));
    dropped[2 * w + 1] = hn::RebindMask(d, hn::Gt(limit, word));
  }
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
  MasksOfWords(d, stream, even, odd, dropped);
}

template <class D>
  requires(sizeof(hn::TFromD<D>) == 8)
HWY_INLINE void DroppedMasks(D d, const DropoutStream& stream, int64_t query, int64_t key, hn::Mask<D> dropped[8]) {
  const hn::RebindToUnsigned<D> d64;
  hn::Vec<decltype(d64)> words[4];
  RandomWords(d64, stream, hn::Add(hn::Set(d64, static_cast<uint64_t>(query)), hn::Iota(d64, 0)), key, words);
  MasksOfWords(d, stream, words, dropped);
}

// The same for lanes that hold the call's query queries[w] of its head heads[w]; the stream is that of its first head.
template <class D>
HWY_INLINE void DroppedMasksOf(D d, const DropoutStream& stream, const int64_t* queries, const int64_t* heads, int64_t key,
                               hn::Mask<D> dropped[8]) {
  const hn::Repartition<uint64_t, D> d64;
  const hn::RebindToSigned<decltype(d64)> i64;
  using V = hn::Vec<decltype(d64)>;
  const V first_query = hn::Set(d64, static_cast<uint64_t>(stream.first_query)),
          first_head = hn::Set(d64, uint64_t{stream.head});
  const V block = hn::Set(d64, static_cast<uint64_t>(key) / 8);
  const auto draw = [&](auto query, auto head, V words[4]) HWY_ATTR {
    RandomWords(d64, stream, hn::Add(hn::BitCast(d64, query), first_query), hn::Add(hn::BitCast(d64, head), first_head), block,
                words);
  };
  if constexpr (sizeof(hn::TFromD<D>) == 8) {
    V words[4];
    draw(hn::LoadU(i64, queries), hn::LoadU(i64, heads), words);
    MasksOfWords(d, stream, words, dropped);
  } else {
    hn::Vec<decltype(i64)> even_query, odd_query, even_head, odd_head;
    hn::LoadInterleaved2(i64, queries, even_query, odd_query);
    hn::LoadInterleaved2(i64, heads, even_head, odd_head);
    V even[4], odd[4];
    draw(even_query, even_head, even);
    draw(odd_query, odd_head, odd);
    MasksOfWords(d, stream, even, odd, dropped);
  }
}

// The 16 random bits of the keys from `key` on (a multiple of 8) for one query, in blocks of eight: drawn[j] is below the
// threshold where the weight with key + j is dropped. drawn has room for whole vectors of blocks.
inline void DrawRow(const DropoutStream& stream, int64_t query, int64_t key, int64_t blocks, uint16_t* drawn) {
  const hn::ScalableTag<uint64_t> d64;
  using V = hn::Vec<decltype(d64)>;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d64));
  const V own = hn::Set(d64, static_cast<uint64_t>(query)), head = hn::Set(d64, uint64_t{stream.head});
  const V low_word = hn::Set(d64, uint64_t{0xFFFFFFFFu});
  const uint64_t first = static_cast<uint64_t>(key) / 8;
  for (int64_t x = 0; x < blocks; x += lanes) {
    V words[4];
    RandomWords(d64, stream, own, head, hn::Add(hn::Set(d64, first + static_cast<uint64_t>(x)), hn::Iota(d64, 0)), words);
    HWY_ALIGN uint64_t pairs[2 * hn::MaxLanes(d64)];
    hn::StoreInterleaved2(hn::Or(hn::And(words[0], low_word), hn::ShiftLeft<32>(words[1])),
                          hn::Or(hn::And(words[2], low_word), hn::ShiftLeft<32>(words[3])), d64, pairs);
    std::memcpy(drawn + 8 * x, pairs, static_cast<std::size_t>(lanes) * 16);
  }
}
#endif  // HWY_TARGET == HWY_SCALAR

}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
