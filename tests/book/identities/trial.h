// What identities of several schemes are made of.
#ifndef HEED_TESTS_BOOK_IDENTITIES_TRIAL_H_
#define HEED_TESTS_BOOK_IDENTITIES_TRIAL_H_

#include <functional>
#include <string>

#include "tests/book/identities/identities.h"

namespace heed::lab {

// Pairs of positions, int64 [pairs], in a square [pairs, 2] (row, column).
struct Pairs {
  at::Tensor queries, keys;
  at::Tensor Distances() const;  // query position - key position, double [pairs, 1]
};

// Up to 12 positions of 0 .. min(steps, 4096) - 1, evenly spread and the neighbours of the first; all pairs of them, but for
// schemes that need causality those of a query and a key up to it.
Pairs PairsOf(const Probe& probe);

// All pairs of up to 25 places, whose rows and columns are up to five of 0 .. side - 1: spread, and the neighbour of the first.
Pairs PairsInSquare(int64_t side);

// Scale times the product of query and key, [heads].
at::Tensor ProductOf(const Probe& probe);

// The largest error of the scores against what they should be, as a part of the largest of these, if that is above 1; bounded
// by what double precision allows.
Identity Compare(const std::string& what, const at::Tensor& got, const at::Tensor& expected);

// expected(query positions - key positions, double [pairs, 1]) gives scores [pairs, heads].
Identity Formula(const Probe& probe, const std::string& what, const std::function<at::Tensor(const at::Tensor&)>& expected);
// Positions of both moved alike.
Identity Moved(const Probe& probe);
// The same of pairs in a square.
Identity MovedInSquare(const Probe& probe, const Pairs& pairs, int64_t rows, int64_t columns);
// Keys as far before the query as behind it.
Identity Mirrored(const Probe& probe);
// Keys farther than `reach` to either side.
Identity Beyond(const Probe& probe, int64_t reach);

}  // namespace heed::lab

#endif  // HEED_TESTS_BOOK_IDENTITIES_TRIAL_H_
