// What positional schemes are by their sizes alone, for modules of LibTorch and for layers on plain memory: scores as programs,
// and tables of whole numbers and rates. Their trained numbers are given beside them.
#ifndef HEED_SCHEME_FORMULAS_H_
#define HEED_SCHEME_FORMULAS_H_

#include <cstdint>
#include <string_view>
#include <vector>

#include "heed/rotary.h"
#include "heed/score_program.h"

namespace heed {

// Whether a scheme's formula takes real numbers for positions, such as times: sinusoidal, rotary and alibi do. Others look a
// position up in a table and know steps alone. scheme: a name as `heed study --positions` takes it.
bool TakesTimes(std::string_view scheme);

// All programs throw InvalidArgument that names the size which they are not made for. Their tables, in order, are told behind
// them; Hq query heads.

// score - rate log(1 + scale |i - j|), or score - scale |i - j|^rate: rate [Hq], scale [Hq], both 0.01 or more. Chi et al.
// 2022, "KERPLE", sections 4 and 5. kKerpleLeast is what numbers below it count as; a rate of powers counts as 2 at most.
enum class KerpleKind { kLog, kPower };
inline constexpr double kKerpleLeast = 0.01, kKerpleMostPower = 2.0;
ScoreProgram KerpleProgram(KerpleKind kind);

// score + (sum over t = 1..head_dim/2 of cos((i - j) / 10000^(2t / head_dim)) - head_dim/2) / (8 h / heads), h = 1..heads; no
// tables. Chi et al. 2023, "Dissecting Transformer Length Extrapolation via the Lens of Receptive Field Analysis", section 5.
inline constexpr int64_t kSandwichWidth = 128;
ScoreProgram SandwichProgram(int64_t heads, int64_t head_dim = kSandwichWidth);

// A network of the relative distance: c [1], multiplier [1], first weight [width], first bias [width], second weight [Hq,
// width], second bias [Hq]. Li et al. 2024, "Functional Interpolation for Relative Positions", section 3.
inline constexpr int64_t kFireWidth = 32;
ScoreProgram FireProgram(int64_t width = kFireWidth, double threshold = 512.0);

// score * exp(log scale): log scale [Hq].
ScoreProgram TemperatureProgram();

// score + sum over t of cosine[h, t] cos((i - j) w_t) + sine[h, t] sin((i - j) w_t), w_t = 10000^(-t / frequencies): cosine
// [Hq, frequencies], sine [Hq, frequencies].
inline constexpr int64_t kSinusoidalBiasFrequencies = 16;
ScoreProgram SinusoidalBiasProgram(int64_t frequencies = kSinusoidalBiasFrequencies);

// Of heed::ColumnDecay, [head_dim]: -log(zeta) / scale_base with the zeta of each pair of columns. Sun et al. 2023, "A
// Length-Extrapolatable Transformer", section 3.2.
std::vector<double> XPosRates(int64_t head_dim, double scale_base = 512.0, RotaryLayout layout = RotaryLayout::kHalf);

// Which of DeBERTa's 2 * (buckets, or max_distance where they are 0) vectors belongs to each key position - query position,
// -max_distance first: [2 * max_distance + 1]. buckets: 0, or an even number of at least 2 whose half lies below max_distance -
// 1. He et al. 2021, "DeBERTa", section 3.1, and the authors' code for buckets.
std::vector<int64_t> DebertaRows(int64_t max_distance, int64_t buckets = 0);

}  // namespace heed

#endif  // HEED_SCHEME_FORMULAS_H_
