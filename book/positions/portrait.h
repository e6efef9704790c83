// What there is to say and draw of each scheme: one entry a scheme. Internal to book/positions.
#ifndef HEED_BOOK_POSITIONS_PORTRAIT_H_
#define HEED_BOOK_POSITIONS_PORTRAIT_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "book/positions/figures.h"
#include "book/positions/positions.h"
#include "book/positions/scores.h"
#include "heed/nn/attention_position.h"

namespace heed::lab {

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
