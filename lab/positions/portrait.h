// What there is to say, draw and check of each scheme: one entry a scheme. Internal to lab/positions.
#ifndef HEED_LAB_POSITIONS_PORTRAIT_H_
#define HEED_LAB_POSITIONS_PORTRAIT_H_

#include <string>
#include <vector>

#include "heed/nn/position_choice.h"
#include "lab/positions/figures.h"
#include "lab/positions/identities.h"
#include "lab/positions/positions.h"

namespace heed::lab {

// What a number of columns (PositionsOptions::width) is of.
enum class WidthUnit { kEncoding, kHead, kHeads };

struct Portrait {
  nn::PositionScheme scheme;
  WidthUnit unit;
  bool clips = false;    // it has a largest distance
  bool random = false;   // it starts at random
  bool turning = false;  // its table of sines and cosines is checked to turn; see CheckRotation
  // One paragraph: what it is, what it does to a query as the distance grows, what it cannot tell apart.
  const char* about;
  // The numbers that are drawn, null where the options alone give them or they are rows of the input.
  SchemeTable (*numbers)(const nn::AttentionPosition& scheme, const PositionsOptions& options) = nullptr;
  std::vector<Figure> (*draw)(const PositionsOptions& options, const SchemeTable& table, const Words& words);
  Words words = {};
  Identities (*identities)(const Probe& probe) = nullptr;  // null for schemes on the input
};

// Null for a scheme without an entry. Throws InvalidArgument that lists the names where there is no such scheme.
const Portrait* FindPortrait(const std::string& scheme);
// The same; throws InvalidArgument for a scheme without one.
const Portrait& PortraitOf(const std::string& scheme);

}  // namespace heed::lab

#endif  // HEED_LAB_POSITIONS_PORTRAIT_H_
