// A call of attention as users of LibTorch can write it: with scaled_dot_product_attention, in every way that computes the
// same.
#ifndef HEED_BENCH_SUITES_TORCH_ATTENTION_H_
#define HEED_BENCH_SUITES_TORCH_ATTENTION_H_

#include <optional>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "bench/suites/call_case.h"

namespace heed::lab {

// What both sides of a case read. Undefined where the case has none.
struct AttentionInputs {
  at::Tensor query, key, value;
  at::Tensor mask;   // [B, 1, Nq, Nk]
  at::Tensor bias;   // [1, Hq, Nq, Nk]
  at::Tensor table;  // [Hq, 2 max(Nq, Nk) - 1], by key position - query position
};

struct TorchWay {
  enum class Groups {
    kNone,      // a key head for every query head
    kFlag,      // enable_gqa
    kRepeated,  // keys and values repeated in the call; a view where there is one key head
    kFolded,    // the queries of a group as queries of one head, where all of them see the same keys
  };
  Groups groups = Groups::kNone;
  bool additive = false;  // a mask of 0 and -inf instead of a boolean one, which LibTorch converts in every call
  bool padded = false;    // widths of keys and values made equal with zeros, which the fused path needs

  std::string Name() const;  // "folded groups, additive mask"; empty for the plain call
};

class TorchAttention {
 public:
  // Prepares masks and constant biases, which so are no part of a call, and narrows to the keys that any query sees.
  TorchAttention(const CallCase& c, const AttentionInputs& inputs);

  // The plain call first.
  std::vector<TorchWay> Ways() const;
  at::Tensor Output(const TorchWay& way) const;
  // "flash" or "math": what LibTorch chooses for this way and the gradient mode that is in force.
  std::string Path(const TorchWay& way) const;
  // That see each other, of all batch rows and one head.
  double Pairs() const;

 private:
  // The arguments of scaled_dot_product_attention.
  struct Call {
    at::Tensor query, key, value;
    std::optional<at::Tensor> mask;
    bool causal = false, grouped = false;
    double scale = 1;
  };

  bool PrepareOrder();
  void PrepareMasks(bool order_hides);
  at::Tensor VisibleByOrder() const;
  std::optional<at::Tensor> MaskOf(const TorchWay& way) const;
  Call Prepare(const TorchWay& way) const;

  CallCase case_;
  AttentionInputs inputs_;
  int64_t first_key_ = 0, last_key_ = 0;
  bool causal_ = false;    // LibTorch's is_causal says all
  bool same_keys_ = true;  // all queries of a batch row see the same
  at::Tensor visible_;     // [B or 1, 1, Nq or 1, keys]; undefined where all is seen, or as causal_ says
  at::Tensor additive_;    // the same as 0 and -inf; of a constant bias its sum with it, [B or 1, Hq, Nq, keys]
  at::Tensor offsets_;     // columns of the table [Nq * keys]
};

}  // namespace heed::lab

#endif  // HEED_BENCH_SUITES_TORCH_ATTENTION_H_
