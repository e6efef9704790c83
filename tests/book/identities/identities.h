// The identity that belongs to each scheme inside attention, tried on its scores.
#ifndef HEED_TESTS_BOOK_IDENTITIES_IDENTITIES_H_
#define HEED_TESTS_BOOK_IDENTITIES_IDENTITIES_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include <ATen/core/Tensor.h>

#include "book/positions/positions.h"
#include "book/positions/scores.h"
#include "heed/nn/attention_position.h"

namespace heed::lab {

// A scheme on the bench: its parameters, a query and a key, and what it makes of their score.
struct Probe {
  std::shared_ptr<const nn::AttentionPosition> scheme;  // double
  QueryAndKey tokens;                                   // [heads, head width] double
  int64_t steps = 0;                                    // positions 0 .. steps - 1 are tried,
  int64_t side = 0;                                     // or as many rows and columns of a square
  // Scores [pairs, heads] where queries and keys stand at these positions, int64 [pairs], in a square [pairs, 2].
  std::function<at::Tensor(const at::Tensor& query_positions, const at::Tensor& key_positions)> scores;
};

// Of a new scheme, whose parameters that would start at zero are drawn N(0, 1) from the seed: of a table of zeros
// everything holds.
Probe MakeProbe(const PositionsOptions& options);

// Something that must hold of a scheme, and how far it is from holding.
struct Identity {
  std::string what;
  double error = 0, bound = 0;
  bool Holds() const { return error <= bound; }
};
using Identities = std::vector<Identity>;

// Each tries the scores against the formula of the paper, computed here apart from the engine, and what cannot be told apart.
Identities RotaryIdentities(const Probe& probe);
Identities XPosIdentities(const Probe& probe);
Identities AlibiIdentities(const Probe& probe);
Identities RelativeIdentities(const Probe& probe);
Identities T5Identities(const Probe& probe);
Identities ShawIdentities(const Probe& probe);
Identities KerpleIdentities(const Probe& probe);
Identities KerplePowerIdentities(const Probe& probe);
Identities SandwichIdentities(const Probe& probe);
Identities FireIdentities(const Probe& probe);
Identities TemperatureIdentities(const Probe& probe);
Identities SinusoidalBiasIdentities(const Probe& probe);
Identities TransformerXlIdentities(const Probe& probe);
Identities DebertaIdentities(const Probe& probe);
Identities CopeIdentities(const Probe& probe);
Identities AxialRotaryIdentities(const Probe& probe);
Identities SwinIdentities(const Probe& probe);
Identities SwinV2Identities(const Probe& probe);

// Of a table whose rows are added to the input, [positions, width].
Identities LearnedIdentities(const PositionsOptions& options, const SchemeTable& table);
Identities RandomFourierIdentities(const PositionsOptions& options, const SchemeTable& table);

}  // namespace heed::lab

#endif  // HEED_TESTS_BOOK_IDENTITIES_IDENTITIES_H_
