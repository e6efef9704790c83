// What to measure over depth: which stacks, how deep, how long they train.
#ifndef HEED_BOOK_DEPTH_OPTIONS_H_
#define HEED_BOOK_DEPTH_OPTIONS_H_

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "lab/options/fields.h"

namespace heed::lab {

enum class StackNorm { kNone, kPost, kPre };

// How the layers of a stack are built.
struct StackVariant {
  std::string id;     // for the command line, files and JSON
  std::string label;  // for figures and tables
  bool residual;      // the input of a sublayer is added to its output
  StackNorm norm;     // kPost: what a sublayer leaves is normalised, kPre: what it reads
  bool feed_forward;
};

// "attention", "attention-residual", "feed-forward", "norm", "residual", "post", "pre".
const std::vector<StackVariant>& AllVariants();
// Throws InvalidArgument that lists the ids.
const StackVariant& VariantNamed(const std::string& id);

struct DepthOptions {
  std::string budget = "default";
  // As they start: one stack of `layers` for each variant without positions, and for each scheme with attention alone.
  std::vector<std::string> variants = {"attention", "attention-residual", "feed-forward", "norm", "residual", "post", "pre"};
  std::vector<std::string> positions = {"none", "sinusoidal", "learned", "rotary", "alibi", "shaw"};
  int64_t layers = 64;
  // Trained: each of these at each depth, without positions beside the causal mask.
  std::vector<std::string> trained = {"pre", "post", "residual", "norm"};
  std::vector<int64_t> depths;
  int64_t steps = 0;
  int64_t width = 32, heads = 4;
  int64_t context = 32;  // characters of a window
  int64_t batch = 8;     // windows a step
  double lr = 3e-3;
  int64_t validation = 4096;  // characters that trained stacks are evaluated on, at most; more than the context
  uint64_t seed = 0;
  int threads = 1;    // stacks side by side; each computes with one thread, so the results do not depend on it
  bool quiet = true;  // no messages and no progress on stderr
};

// "quick", "default" or "long", by the table in docs/inspect.md; throws InvalidArgument that lists them.
DepthOptions DepthBudget(const std::string& budget);

// The same with no stack of more layers than these.
DepthOptions AtMost(int64_t layers, DepthOptions options);

Fields FieldsOf(DepthOptions& options);

// Throws InvalidArgument that names the option and what it may be.
void Validate(const DepthOptions& options);

// The command that gives the same numbers for the text at `text`, none for an empty path, in this folder.
std::string CommandOf(const DepthOptions& options, const std::string& text, const std::filesystem::path& folder);

}  // namespace heed::lab

#endif  // HEED_BOOK_DEPTH_OPTIONS_H_
