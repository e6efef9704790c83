#include "book/positions/portrait.h"

#include <algorithm>
#include <iterator>

#include <fmt/core.h>
#include <fmt/ranges.h>

#include "heed/error.h"
#include "heed/nn/rotations.h"
#include "heed/nn/window_biases.h"
#include "lab/report/prose.h"
#include "positions_prose.h"

namespace heed::lab {
namespace {

using enum WidthUnit;

using Options = const PositionsOptions&;
using Made = std::shared_ptr<nn::AttentionPosition>;

const Portrait kPortraits[] = {
    {.name = "sinusoidal", .unit = kEncoding, .draw = &SinusoidalFigures},
    {.name = "learned", .unit = kEncoding, .random = true, .rows = &LearnedRows, .draw = &LearnedFigures},
    {.name = "random_fourier",
     .unit = kEncoding,
     .multiple = 2,
     .random = true,
     .rows = &RandomFourierRows,
     .draw = &RandomFourierFigures},
    {.name = "rotary", .unit = kHead, .multiple = 2, .draw = &RotaryFigures},
    {.name = "axial_rotary",
     .unit = kHead,
     .multiple = 4,
     .square = true,
     .make = [](Options o) -> Made { return nn::AxialRotary(o.width).ptr(); },
     .draw = &AxialRotaryFigures},
    {.name = "xpos", .unit = kHead, .multiple = 2, .numbers = &PairsByDistance, .draw = &FadingFigures},
    {.name = "alibi", .unit = kHeads, .draw = &AlibiFigures},
    {.name = "relative", .unit = kHeads, .clips = true, .numbers = &TableOfScheme, .draw = &BiasFigures},
    {.name = "t5", .unit = kHeads, .clips = true, .numbers = &TableOfScheme, .draw = &BucketFigures},
    {.name = "kerple", .unit = kHeads, .random = true, .numbers = &BiasByOffset, .draw = &BiasFigures},
    {.name = "kerple_power", .unit = kHeads, .random = true, .numbers = &BiasByOffset, .draw = &BiasFigures},
    {.name = "sandwich", .unit = kHeads, .numbers = &BiasByOffset, .draw = &BiasFigures},
    {.name = "fire", .unit = kHeads, .random = true, .numbers = &BiasByOffsetAndQuery, .draw = &FarQueryFigures},
    {.name = "sinusoidal_bias", .unit = kHeads, .numbers = &BiasByOffset, .draw = &BiasFigures},
    {.name = "temperature", .unit = kHeads, .numbers = &Multipliers, .draw = &MultiplierFigures},
    {.name = "shaw", .unit = kHead, .clips = true, .random = true, .numbers = &TableOfScheme, .draw = &VectorFigures},
    {.name = "transformer_xl", .unit = kHeads, .clips = true, .random = true, .numbers = &TermByOffset, .draw = &BiasFigures},
    {.name = "deberta", .unit = kHeads, .clips = true, .random = true, .numbers = &TermByOffset, .draw = &BiasFigures},
    {.name = "cope", .unit = kHeads, .clips = true, .random = true, .numbers = &TermByOffset, .draw = &BiasFigures},
    {.name = "swin",
     .unit = kHeads,
     .square = true,
     .random = true,
     .make = [](Options o) -> Made { return nn::SwinBias(o.width, SideOf(o)).ptr(); },
     .numbers = &TableOfScheme,
     .draw = &WindowFigures},
    {.name = "swin_v2",
     .unit = kHeads,
     .square = true,
     .random = true,
     .make = [](Options o) -> Made { return nn::SwinV2Bias(o.width, SideOf(o)).ptr(); },
     .numbers = &TableOfScheme,
     .draw = &LogarithmicFigures}};

}  // namespace

const Prose& PositionTexts() {
  static const Prose prose(text::kPositionsProseTxt);
  return prose;
}

std::string AboutOf(const Portrait& portrait) { return PositionTexts()(portrait.name); }

Words WordsOf(const Portrait& portrait) {
  Words words;
  const auto read = [&](const char* name, std::string& text) {
    const std::string full = fmt::format("{} {}", portrait.name, name);
    if (PositionTexts().has(full)) text = PositionTexts()(full);
  };
  read("subject", words.subject);
  read("caption", words.caption);
  read("learnt", words.learnt);
  read("label", words.label);
  return words;
}

std::vector<std::string> PictureNames() {
  std::vector<std::string> names;
  names.reserve(std::size(kPortraits));
  for (const Portrait& portrait : kPortraits) names.emplace_back(portrait.name);
  return names;
}

const Portrait* FindPortrait(const std::string& scheme) {
  const auto* const found = std::ranges::find(kPortraits, scheme, &Portrait::name);
  return found == std::end(kPortraits) ? nullptr : found;
}

const Portrait& PortraitOf(const std::string& scheme) {
  if (scheme == "none") throw InvalidArgument("scheme: none has no numbers to draw");
  const Portrait* found = FindPortrait(scheme);
  if (found != nullptr) return *found;
  throw InvalidArgument(fmt::format("scheme: '{}' is unknown; expected one of {}", scheme, fmt::join(PictureNames(), ", ")));
}

}  // namespace heed::lab
