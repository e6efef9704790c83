// The table of schemes, and what their figures share. Internal to book/positions.
#ifndef HEED_BOOK_POSITIONS_PORTRAIT_H_
#define HEED_BOOK_POSITIONS_PORTRAIT_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "book/positions/positions.h"
#include "book/positions/scores.h"
#include "heed/nn/attention_position.h"
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
// Mean, least and greatest of the numbers at each distance.
Series SpreadOf(std::string name, int64_t distances, const std::function<std::vector<double>(int64_t distance)>& numbers);
// positions-SCHEME-KIND, as files are named.
std::string FigureName(const std::string& scheme, const std::string& kind);
std::string CaptionOf(const SchemeTable& table, const Words& words);
// " as it starts", or nothing of a trained table or where nothing is trained.
std::string StartNote(const SchemeTable& table, const Words& words);

// The sinusoidal table as the engine emits it, row-major [steps, width], positions from 0.
std::vector<float> EmittedSinusoidal(const PositionsOptions& options);

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

// Of rotary positions of tokens in a square: the angles of every token and pair of columns, as their cosines, and the score of
// a constant query and key over the square of their offsets and along an axis.
std::vector<Figure> AxialRotaryFigures(const PositionsOptions& options, const SchemeTable& table, const Words& words);

// What a number of columns (PositionsOptions::width) is of.
enum class WidthUnit { kEncoding, kHead, kHeads };

struct Portrait {
  const char* name;
  WidthUnit unit;
  int64_t multiple = 1;  // the width is a multiple of it
  bool square = false;   // its tokens stand in a square; see SideOf
  bool clips = false;    // it has a largest distance
  bool random = false;   // it starts at random
  // A new scheme inside attention; null for schemes on the input, and for those that models know by the same name.
  std::shared_ptr<nn::AttentionPosition> (*make)(const PositionsOptions& options) = nullptr;
  // The numbers that are drawn, null where the options alone give them or they are rows of the input.
  SchemeTable (*numbers)(const nn::AttentionPosition& scheme, const PositionsOptions& options) = nullptr;
  SchemeTable (*rows)(const PositionsOptions& options) = nullptr;  // of the input, as they start
  std::vector<Figure> (*draw)(const PositionsOptions& options, const SchemeTable& table, const Words& words);
};

// Of positions_prose.txt, one paragraph: what it is, what it does to a query as the distance grows, what it cannot tell apart.
std::string AboutOf(const Portrait& portrait);
Words WordsOf(const Portrait& portrait);

// Null for a scheme without an entry.
const Portrait* FindPortrait(const std::string& scheme);
// The same; throws InvalidArgument that lists the names.
const Portrait& PortraitOf(const std::string& scheme);

}  // namespace heed::lab

#endif  // HEED_BOOK_POSITIONS_PORTRAIT_H_
