// What there is to say, draw and check of each scheme: one entry a scheme. Internal to lab/positions.
#ifndef HEED_LAB_POSITIONS_PORTRAIT_H_
#define HEED_LAB_POSITIONS_PORTRAIT_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "heed/nn/attention_position.h"
#include "lab/positions/figures.h"
#include "lab/positions/identities.h"
#include "lab/positions/positions.h"

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
  bool turning = false;  // its table of sines and cosines is checked to turn; see CheckRotation
  // One paragraph: what it is, what it does to a query as the distance grows, what it cannot tell apart.
  const char* about;
  // A new scheme inside attention; null for schemes on the input, and for those that models know by the same name.
  std::shared_ptr<nn::AttentionPosition> (*make)(const PositionsOptions& options) = nullptr;
  // The numbers that are drawn, null where the options alone give them or they are rows of the input.
  SchemeTable (*numbers)(const nn::AttentionPosition& scheme, const PositionsOptions& options) = nullptr;
  SchemeTable (*rows)(const PositionsOptions& options) = nullptr;  // of the input, as they start
  std::vector<Figure> (*draw)(const PositionsOptions& options, const SchemeTable& table, const Words& words);
  Words words = {};
  Identities (*identities)(const Probe& probe) = nullptr;  // null for schemes on the input
  Identities (*row_identities)(const PositionsOptions& options, const SchemeTable& table) = nullptr;
};

// Null for a scheme without an entry.
const Portrait* FindPortrait(const std::string& scheme);
// The same; throws InvalidArgument that lists the names.
const Portrait& PortraitOf(const std::string& scheme);

}  // namespace heed::lab

#endif  // HEED_LAB_POSITIONS_PORTRAIT_H_
