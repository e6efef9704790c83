// Every size that was chosen by measurement, with the resource that sets it. Sizes depend on the shape alone, never on the
// instruction set or the number of threads, so that sums are taken in the same order everywhere. What differs from machine to
// machine and changes no sum is in heed/machine.h.
#ifndef HEED_SIMD_TUNING_H_
#define HEED_SIMD_TUNING_H_

#include <algorithm>
#include <cstdint>

namespace heed::simd {

struct TileSizes {
  int64_t panel;      // queries side by side in SIMD lanes
  int64_t tile;       // keys per tile
  int64_t min_chunk;  // keys whose gradients one backward task owns, at least
};

// Below this many multiply-adds of both products a call stays on its thread: with more, which take one core some ten
// microseconds, two threads that wait for work are faster.
constexpr double kSerialWork = 2e5;
// A multiply-add of few queries takes as long as so many others: 512 keys of 8 heads 33 microseconds.
constexpr double kFewSlowness = 4;
// What a head costs beside its products: a third of a microsecond.
constexpr double kHeadWork = 2e4;

// More chunks mean more parallel work for one head, but each beyond the first costs a partial dQ of the size of Q.
constexpr int64_t kMaxChunks = 8;
// One head alone has no other parallel work, so it is cut further: each of its panels is packed anew for every chunk, some 2 %
// of what a chunk of 256 keys computes.
constexpr int64_t kMaxChunksOfOneHead = 16;
constexpr int64_t kMinChunkOfOneHead = 256;

// Where key heads and chunks make fewer backward tasks than this, the queries of a key head are cut in pieces too: the chunks
// of 128 workers then have two tasks for each. A piece has sums of dK and dV of its own, which cost a pass over them: 0.5 % of
// what 1024 queries compute with the chunk.
constexpr int64_t kBackwardTasks = 256;
constexpr int64_t kMinPiece = 1024;
// Up to so many tasks are worth shorter pieces, without which a key head that many query heads share leaves cores idle.
constexpr int64_t kFewBackwardTasks = 2;
constexpr int64_t kMinPieceOfFewTasks = 256;

// Workers that get no more tasks than this each begin with the longest: the last tasks are then short. With more, tasks are
// begun in the order in which they share keys. Two workers balance by themselves.
constexpr int64_t kOrderedTasks = 16;
constexpr int64_t kFewWorkers = 2;

// Panels whose dQ one task sums up at the end of the backward pass: 64 rows of 64 floats from 16 parts are 256 KiB a panel.
constexpr int64_t kFinishPanels = 4;

// Fewer independent backward tasks than kBiasTasks under a dense bias that batch rows or heads share: its gradient is then
// collected in up to kBiasCopies copies, each of the size of the bias.
constexpr int64_t kBiasTasks = 4;
constexpr int64_t kBiasCopies = 4;

// The gradient of a table that batch rows and heads share is collected in up to so many parts, each of the size of the table,
// and no more tasks than parts run at the same time.
constexpr int64_t kTableParts = 32;

// Keys and values of 16 bits, or with gaps, are copied once for all panels of a head, up to so many: with a width of 64 as
// floats they take 1 MiB, as keys and values of float32 do. Longer rows are copied for every panel again, which costs 4 % where
// they are widened (2048 keys of bfloat16 on a Zen 4, forward).
constexpr int64_t kHeldKeys = 2048;

// Keys per tile, see ChooseTiles.
constexpr int64_t kTileKeys = 64;

// The widest register tile: four AVX-512 vectors.
constexpr int64_t kWidestPanelBytes = 256;

// Forward: up to this many panels per group of heads, keys are split so that a decoding step uses every core. A split shorter
// than kMinSplit keys would spend more on merging its partial output than on its keys.
constexpr int64_t kFewPanels = 4;
constexpr int64_t kMinSplit = 1024;
// So many key heads give every core some tasks: few queries, whose splits wait for memory alone, then have twice as long ones.
constexpr int64_t kManyKeyHeads = 8;
constexpr int64_t kMaxSplits = 16;
// Longer splits than this are cut further: its merge then costs less than 1 % of its keys, on one thread.
constexpr int64_t kLongSplit = 4096;
constexpr int64_t kMaxLongSplits = 128;

// Up to this many queries that share a key head meet the elements of a key in SIMD lanes, instead of standing in lanes
// themselves: each key then costs as many FMAs as it has vectors, not as many as it has elements. Five queries would wait for
// arithmetic.
constexpr int64_t kFewQueries = 4;

// Lanes up to which a dense mask is taken lane by lane: a square of 64 by 64 bits takes as long to transpose as some ten of
// them.
constexpr int64_t kFewMaskedLanes = 8;
// Keys per tile of theirs: the softmax of a tile waits for all of its scores and memory rests meanwhile, and begins anew with
// its values, so it comes seldom. Scores alone stay in between. Read from memory, tiles of 256 keys take 8 % longer.
constexpr int64_t kFewTileKeys = 1024;

// A panel that meets so many keys for each of its lanes waits for those alone, and asks for them at every step of a product.
// With fewer its own rows and those of the next panel take as long.
constexpr int64_t kStreamedKeys = 4;

// Cache lines asked for between two register tiles (about 1500 cycles of FMA at 6 x 4 vectors and 64 steps): as many as a core
// of the machines measured has buffers for outstanding misses.
constexpr int kAheadLines = 24;

// panel: 64 floats are four AVX-512 vectors, the width of the widest register tile; 32 doubles are the same bytes. Shorter
//   sequences take the narrowest multiple of 16 that holds them.
// tile: 64 keys keep scores (64 x 64 floats, 16 KiB) beside a tile of keys or values (64 x 64 floats) in 32 KiB of L1.
// min_chunk: 512 keys with K, V, dK and dV of 64 floats are 512 KiB, half of a 1 MiB L2.
// One choice serves head widths of 16 to 256: bench/engine/attention_bench with other sizes in this place gave, on AVX-512, at
// most 3 % more (chunks of 1024 at width 32) and up to 12 % less (tiles of 32 keys at width 16); the table is
// docs/performance/tile-sizes.csv.
inline TileSizes ChooseTiles(int64_t q_len, int element_bytes) {
  const int64_t widest = kWidestPanelBytes / element_bytes;
  const int64_t panel = std::clamp<int64_t>((q_len + 15) / 16 * 16, 16, widest);
  return {panel, kTileKeys, 512};
}

}  // namespace heed::simd

#endif  // HEED_SIMD_TUNING_H_
