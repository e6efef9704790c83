// Each positional scheme itself: its figures, a paragraph about it, and the identity that belongs to it; of the sinusoids also
// the book's binary analogy and the rotation that shifts a position.
#ifndef HEED_BOOK_POSITIONS_POSITIONS_H_
#define HEED_BOOK_POSITIONS_POSITIONS_H_

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "heed/view.h"
#include "lab/report/figure.h"

namespace heed::lab {

class LanguageModel;

struct PositionsOptions {
  std::string scheme = "sinusoidal";  // of PictureNames()
  int64_t steps = 60;                 // positions
  int64_t width = 32;                 // encoding dimensions, of a head for rotary, axial_rotary, xpos, shaw; else heads
  int64_t first_column = 6, last_column = 10;  // half-open: the dimensions (heads) that are drawn as lines
  std::string column_label = "Col";            // legend of sinusoidal: "Col 6"; the book also writes "dim 4"
  int64_t head_width = 32;                     // of heads, where width is their number
  int64_t max_distance = 128;                  // where offsets are clipped, or t5's last bucket begins
  int64_t buckets = 32;                        // t5
  uint64_t seed = 0;                           // of tables that start at random, or of the run that trained one
  std::string run;                             // for the command beside a figure: the run that a trained table is of,
  int64_t layer = 0;                           // and its layer
};

// The command that makes the figures of these options again, in this folder. A run decides what it was trained with.
std::string CommandOf(const PositionsOptions& options, const std::filesystem::path& folder);

// Of a scheme whose numbers depend on where the query stands: what a query far into a text sees, by distance.
struct FarQuery {
  int64_t position;
  std::vector<double> distances, numbers;
};

// The numbers of a scheme that are drawn: learned and random_fourier [positions, width]; swin and swin_v2 [heads, (2 side -
// 1)^2], by offset, rows of offsets below each other; relative and t5 [heads, 2M + 1], by offset; shaw [2M + 1, head width],
// the vectors added to keys, by offset; xpos [pairs of columns, steps]; temperature [heads, 1]; the others [heads, 2 steps -
// 1], what they add to a score, by offset.
struct SchemeTable {
  std::string scheme;
  int64_t rows = 0, columns = 0;
  std::vector<double> values;              // row-major
  bool trained = false;                    // or as it starts
  std::vector<FarQuery> far_queries = {};  // fire, of its first head
};

// As the modules of heed/nn start them, drawn from options.seed alone. Throws InvalidArgument for schemes whose options alone
// say all.
SchemeTable StartingTable(const PositionsOptions& options);
// Of one layer of a model (of the input for learned). Nothing for schemes that train nothing. Throws InvalidArgument that names
// the layer where there is no such one.
std::optional<SchemeTable> TrainedTable(LanguageModel& model, int64_t layer);

// The schemes that there are figures of: those of models by their names, and those that have none there.
std::vector<std::string> PictureNames();
bool HasPicture(const std::string& scheme);

// One paragraph: what the scheme is, what it does to a query as the distance grows, what it cannot tell apart.
std::string AboutScheme(const std::string& scheme);

// Attention heads and the width of one, as the width of a scheme says. A scheme that is one for all heads has two.
int64_t HeadsOf(const PositionsOptions& options);
int64_t HeadWidthOf(const PositionsOptions& options);
// Of schemes whose tokens stand in a square: its rows and its columns, the most that options.steps tokens fill.
int64_t SideOf(const PositionsOptions& options);
// The width that options.scheme has in a model, its context as the steps, as far as scores are measured, and as the columns
// that are drawn the first heads, at most four; of other widths those of the options, or the last four of one too narrow for
// them.
void FitToModel(PositionsOptions& options, int64_t width, int64_t heads, int64_t context);
void FitColumns(PositionsOptions& options);

// Throws InvalidArgument naming the option that is out of its range.
void CheckPositionsOptions(const PositionsOptions& options);

// The first figure is the picture of the scheme; one whose name ends in "similarity" is what it says of a distance. sinusoidal:
// chosen columns over the rows, the whole table. learned: the table. rotary: the angles. xpos: what is left of each pair of
// columns. alibi: the bias of the chosen heads against the offset, the bias matrix of the first of them. shaw: the key vectors
// over the offsets. temperature: the score after over the score before. The others: what the chosen heads add against the
// offset, and all heads; of t5, where nothing is trained yet, its buckets; of fire what queries along a text see. Without a
// trained table, schemes are drawn as they start. Throws InvalidArgument that names the option.
std::vector<Figure> PositionFigures(const PositionsOptions& options, const std::optional<SchemeTable>& trained = std::nullopt);

// The book's analogy for frequencies that fall from column to column: "0 in binary is 000" and so on, with as many digits as
// the last of `count` numbers needs.
std::vector<std::string> BinaryTable(int64_t count = 8);

// How far an emitted table is from what it should be. "Angles" are sines and cosines computed in double precision here, apart
// from the engine. Vaswani et al. 2017, section 3.5: for each shift delta a linear map takes row i to row i + delta; it turns
// the pair (sine, cosine) of frequency w by the angle w * delta.
struct RotationCheck {
  double table_error = 0;          // largest |table - angles|
  double rotation_error = 0;       // largest |row i turned by delta - angles of row i + delta|, all i, both signs of delta
  double least_squares_error = 0;  // largest |map fitted to the table's neighbouring rows alone - rotation by one step|
  double least_squares_share = 0;  // the largest part of what rounding the table to float allows that an entry's error makes up
  int64_t shifts = 0;              // pairs (i, delta) compared
  int64_t unpaired_columns = 0;    // 1 for an odd width: its last sine has no cosine, and no linear map can shift it

  static constexpr double kBound = 1e-6;  // of table_error and rotation_error: an order above rounding to float
  bool Passed() const { return table_error < kBound && rotation_error < kBound && least_squares_share <= 1; }
};

// Checks a float table [steps, width], steps >= 3, width >= 2, interleaved, base 10000, first position 0. Takes time
// steps^2 * width, which may be 2^36 at most (half a minute). The second form emits the table of the options and checks it:
// sinusoidal's, or the sines and cosines by which rotary turns, whose frequencies are the same; other schemes have none.
RotationCheck CheckRotation(View<const float, 2> table);
RotationCheck CheckRotation(const PositionsOptions& options);

}  // namespace heed::lab

#endif  // HEED_BOOK_POSITIONS_POSITIONS_H_
