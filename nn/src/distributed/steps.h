// The steps of a ring: what each rank needs of which, and the messages of one pass.
#ifndef HEED_NN_SRC_DISTRIBUTED_STEPS_H_
#define HEED_NN_SRC_DISTRIBUTED_STEPS_H_

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "distributed/call.h"

namespace heed::nn::distributed {

// Some keys of one rank: for each of its pieces, those from the first to the last that are needed.
struct HeldKeys {
  std::vector<Piece> pieces;
  at::Tensor rows;  // [B, Hkv, tokens of all pieces, width]: a key and its value side by side, or gradients of them

  // Some keys of a piece.
  at::Tensor Of(std::size_t piece, Piece columns) const;
};

// What to compute with some keys that are held, and where its queries and keys lie here.
struct HeldBlock {
  Block block;
  std::size_t piece;  // of the keys
  Piece rows, columns;
};

// Of each piece of keys that a source holds, those from the first to the last that a rank needs.
std::vector<Piece> NeededKeys(const Call& call, int rank, int source);

class Steps {
 public:
  explicit Steps(const Call& call) : call_(&call) {}

  // Step by step: whose keys are there, and who computes with this rank's meanwhile. The next ones are on their way. given:
  // this rank's keys and values, side by side.
  using Step = std::function<void(int source, int taker, const HeldKeys& held)>;
  void Travel(const at::Tensor& given, const std::string& what, const Step& step) const;

  std::vector<HeldBlock> Blocks(const HeldKeys& held) const;

  // Gradients of a source's keys go to it, and arrive from the taker, who had this rank's, [B, Hkv, tokens, width].
  struct WayHome {
    int taker;
    at::Tensor arriving;
    Transfer transfer;
  };
  WayHome Send(int source, int taker, const at::Tensor& found) const;

  // Adds what a rank found of this rank's keys and values to the totals.
  void Add(int taker, const at::Tensor& found, const at::Tensor& totals) const;

 private:
  struct Fetched {
    HeldKeys held;
    std::optional<Transfer> transfer;
  };
  Fetched Fetch(int step, const at::Tensor& given, const std::string& what) const;
  int SourceAt(int step) const;
  int TakerAt(int step) const;
  at::Tensor Local(const at::Tensor& tensor, int rank) const;

  const Call* call_;
};

}  // namespace heed::nn::distributed

#endif  // HEED_NN_SRC_DISTRIBUTED_STEPS_H_
