// The figures of each kind of scheme. Internal to book/positions.
#ifndef HEED_BOOK_POSITIONS_FIGURES_H_
#define HEED_BOOK_POSITIONS_FIGURES_H_

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "book/positions/positions.h"
#include "lab/report/figure.h"
#include "lab/report/prose.h"

namespace heed::lab {

// The words of a figure whose drawing several schemes share.
struct Words {
  std::string subject;  // what titles begin with, as "T5's bias"
  std::string caption;  // of the first figure, as the scheme starts
  std::string learnt;   // the same of a trained model; empty: as it starts, because nothing is trained
  std::string label = "Bias added to the score";
};

const Prose& PositionTexts();  // positions_prose.txt

// The figure positions-TEXT, under which its caption stands in positions_prose.txt; more: what fills it in. Curves are 640 by
// 320, maps 440 by 480.
template <class... More>
Figure Drawn(const std::string& text, std::string title, decltype(Figure::content) content, More&&... more) {
  const bool map = std::holds_alternative<HeatMap>(content);
  return {.name = "positions-" + text,
          .title = std::move(title),
          .caption = PositionTexts()(text, std::forward<More>(more)...),
          .command = {},
          .content = std::move(content),
          .width = map ? 440 : 640,
          .height = map ? 480 : 320};
}

// A curve of y at first, first + 1 .. last - 1.
Series CurveOf(std::string name, int64_t first, int64_t last, const std::function<double(int64_t x)>& y);
// positions-SCHEME-KIND, as files are named.
std::string FigureName(const std::string& scheme, const std::string& kind);
std::string CaptionOf(const SchemeTable& table, const Words& words);
// " as it starts", or nothing of a trained table or where nothing is trained.
std::string StartNote(const SchemeTable& table, const Words& words);

// Of the engine's table: chosen columns, heat map, similarity.
std::vector<Figure> SinusoidalFigures(const PositionsOptions& options, const SchemeTable& table, const Words& words);
// Of a table with a row for each position: heat map, similarity.
std::vector<Figure> LearnedFigures(const PositionsOptions& options, const SchemeTable& table, const Words& words);
// Of rows of random waves: heat map, similarity beside the bell curve.
std::vector<Figure> RandomFourierFigures(const PositionsOptions& options, const SchemeTable& table, const Words& words);
// Of a table with a vector for each offset: heat map over offsets, similarity of two of them.
std::vector<Figure> VectorFigures(const PositionsOptions& options, const SchemeTable& table, const Words& words);

// Of ALiBi's slopes: chosen heads over the offset, bias matrix, bias against the distance.
std::vector<Figure> AlibiFigures(const PositionsOptions& options, const SchemeTable& table, const Words& words);
// Of a table with a number for each head and offset: chosen heads over the offset, heat map of heads and offsets, number
// against the distance.
std::vector<Figure> BiasFigures(const PositionsOptions& options, const SchemeTable& table, const Words& words);
// The same, with the bucket of each offset: T5's, whose table has a number a bucket.
std::vector<Figure> BucketFigures(const PositionsOptions& options, const SchemeTable& table, const Words& words);
// The same, with what queries farther along a text see.
std::vector<Figure> FarQueryFigures(const PositionsOptions& options, const SchemeTable& table, const Words& words);

// Of a table with a number for each head and offset of a square: chosen heads along a row, the square of one head, number
// against the distance along a row.
std::vector<Figure> WindowFigures(const PositionsOptions& options, const SchemeTable& table, const Words& words);
// The same, with the chosen heads over offsets on Swin V2's logarithmic scale.
std::vector<Figure> LogarithmicFigures(const PositionsOptions& options, const SchemeTable& table, const Words& words);

// The angles of every position and pair of columns, as their cosines, and the score of a constant query and key.
std::vector<Figure> RotaryFigures(const PositionsOptions& options, const SchemeTable& table, const Words& words);
// The same of tokens in a square, and the score over the square of their offsets.
std::vector<Figure> AxialRotaryFigures(const PositionsOptions& options, const SchemeTable& table, const Words& words);
// The products of pairs of columns by distance, and the score of a constant query and key.
std::vector<Figure> FadingFigures(const PositionsOptions& options, const SchemeTable& table, const Words& words);
// What becomes of a score in chosen heads, and over the distance, on which it does not depend.
std::vector<Figure> MultiplierFigures(const PositionsOptions& options, const SchemeTable& table, const Words& words);

}  // namespace heed::lab

#endif  // HEED_BOOK_POSITIONS_FIGURES_H_
