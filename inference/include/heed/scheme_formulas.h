// Programs and tables of positional schemes that depend on sizes alone, for modules of LibTorch and layers on plain memory.
// Callers give the trained numbers as tables of the programs.
#ifndef HEED_SCHEME_FORMULAS_H_
#define HEED_SCHEME_FORMULAS_H_

#include <cstdint>
#include <string_view>
#include <vector>

#include "heed/rotary.h"
#include "heed/score_program.h"

namespace heed {

// Whether a scheme's formula takes real numbers as positions, such as times: sinusoidal, rotary and alibi do. Others look up
// positions in a table and take steps only. scheme: a name of `heed study --positions`.
bool TakesTimes(std::string_view scheme);

// All programs throw InvalidArgument, naming a size that they do not take. Each comment lists the program's tables in order,
// with Hq query heads.

// score - rate log(1 + scale |i - j|), or score - scale |i - j|^rate: rate [Hq], scale [Hq], both 0.01 or more. Chi et al.
// 2022, "KERPLE", sections 4 and 5. Numbers below kKerpleLeast count as it; a rate of powers counts as 2 at most.
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

// Rates for heed::ColumnDecay, [head_dim]: -log(zeta) / scale_base with the zeta of each pair of columns. Sun et al. 2023, "A
// Length-Extrapolatable Transformer", section 3.2.
std::vector<double> XPosRates(int64_t head_dim, double scale_base = 512.0, RotaryLayout layout = RotaryLayout::kHalf);

// The row, among DeBERTa's 2 * (buckets, or max_distance if they are 0) vectors, of each key position - query position, from
// -max_distance on: [2 * max_distance + 1]. buckets: 0, or an even number of at least 2 whose half is below max_distance - 1.
// He et al. 2021, "DeBERTa", section 3.1, and the authors' code for buckets.
std::vector<int64_t> DebertaRows(int64_t max_distance, int64_t buckets = 0);

}  // namespace heed

#endif  // HEED_SCHEME_FORMULAS_H_
