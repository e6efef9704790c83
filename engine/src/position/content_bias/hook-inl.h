// Relative positions in the content: the tables beside keys and values, and the one beside queries.
#if defined(HEED_POSITION_CONTENT_BIAS_HOOK_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_POSITION_CONTENT_BIAS_HOOK_INL_H_
#undef HEED_POSITION_CONTENT_BIAS_HOOK_INL_H_
#else
#define HEED_POSITION_CONTENT_BIAS_HOOK_INL_H_
#endif

#include <optional>

#include "attention/position_hook-inl.h"
#include "position/content_bias/keys_values-inl.h"
#include "position/content_bias/queries-inl.h"
#include "position/content_bias/scheme.h"
#include "position/hook_place.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {

template <class T>
class ContentBiasHook final : public PositionHook<T> {
 public:
  using Call = position::ContentBiasCall<T>;
  ContentBiasHook(const Call& call, const typename Call::Scratch& scratch, const position::HookPlace& place) {
    if (call.keys() || call.values()) keys_values_.emplace(call, scratch, place);
    if (call.has_queries()) queries_.emplace(call, scratch, place);
  }

  Term term() const override { return Term::kContent; }

  void Begin(const PanelArrays<T>& panel) override {
    if (keys_values_) keys_values_->Begin(panel);
    if (queries_) queries_->Begin(panel);
  }
  void End(const PanelArrays<T>& panel) override {
    if (keys_values_) keys_values_->End(panel);
  }
  void BeginTile(const TilePlace& place, const TileArrays<T>& arrays) override {
    if (queries_) queries_->BeginTile(place, arrays);
  }
  void AddToScores(const TilePlace& place, bool empty, T* scores) override {
    if (keys_values_) keys_values_->AddToScores(place, empty, scores);
    if (queries_) queries_->AddToScores(place, empty && !keys_values_, scores);
  }
  void Accumulate(const TilePlace& place, const T* d_scores) override {
    if (keys_values_) keys_values_->Accumulate(place, d_scores);
    if (queries_) queries_->Accumulate(place, d_scores);
  }
  bool weighs() const override { return keys_values_ && keys_values_->weighs(); }
  void Weigh(const TilePlace& place, const T* weights) override {
    if (keys_values_) keys_values_->Weigh(place, weights);
  }
  void AddToWeightGradient(const TilePlace& place, T* d_weights) override {
    if (keys_values_) keys_values_->AddToWeightGradient(place, d_weights);
  }

 private:
  std::optional<ContentKeysValues<T>> keys_values_;
  std::optional<ContentQueries<T>> queries_;
};

}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
