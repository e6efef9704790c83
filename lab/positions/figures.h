// The figures of each kind of scheme. Internal to lab/positions.
#ifndef HEED_LAB_POSITIONS_FIGURES_H_
#define HEED_LAB_POSITIONS_FIGURES_H_

#include <string>
#include <vector>

#include "lab/positions/positions.h"
#include "lab/report/figure.h"

namespace heed::lab {

// Of the engine's table: chosen columns, heat map, similarity.
std::vector<Figure> SinusoidalFigures(const PositionsOptions& options);
// Of a table with a row for each position: heat map, similarity.
std::vector<Figure> LearnedFigures(const SchemeTable& table);
// Of a table with a vector for each offset: heat map over offsets, similarity of two of them.
std::vector<Figure> VectorFigures(const SchemeTable& table);

// Of ALiBi's slopes: chosen heads over the offset, bias matrix, bias against the distance.
std::vector<Figure> AlibiFigures(const PositionsOptions& options);
// Of a table with a bias for each head and offset: chosen heads over the offset, heat map of heads and offsets, bias against
// the distance.
std::vector<Figure> BiasFigures(const PositionsOptions& options, const SchemeTable& table);
// The bucket of each offset: T5's, whose table has a number a bucket.
Figure BucketFigure(const PositionsOptions& options);

// The angles of every position and pair of columns, as their cosines, and the score of a constant query and key.
std::vector<Figure> RotaryFigures(const PositionsOptions& options);

}  // namespace heed::lab

#endif  // HEED_LAB_POSITIONS_FIGURES_H_
