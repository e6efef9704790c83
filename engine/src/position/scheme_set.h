// The schemes that one call asks for, in the order of the list.
#ifndef HEED_POSITION_SCHEME_SET_H_
#define HEED_POSITION_SCHEME_SET_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>

#include "core/arena.h"
#include "core/refuse.h"
#include "heed/attention.h"
#include "position/scheme.h"
#include "position/schemes.h"

namespace heed::position {

// Calls visit.template operator()<Scheme>() for every scheme of the list.
template <class Visit>
void ForEachScheme(const Visit& visit) {
  const auto each = [&]<class... Scheme>(std::tuple<Scheme...>*) { (visit.template operator()<Scheme>(), ...); };
  each(static_cast<Schemes*>(nullptr));
}

// Calls visit(name, view) for every array that the options bring. Options: Attention or const Attention.
template <class Options, class Visit>
void ForEachArray(Options& attention, const Visit& visit) {
  const auto where_present = [&](const char* name, auto& view) {
    if (view.present()) visit(name, view);
  };
  const auto any_type = [&](const char* name, auto& variant) {
    std::visit(
        [&](auto& view) {
          if constexpr (!std::is_same_v<std::remove_cvref_t<decltype(view)>, std::monostate>) visit(name, view);
        },
        variant);
  };
  where_present("query_lengths", attention.query_lengths.values);
  where_present("key_lengths", attention.key_lengths.values);
  where_present("prefix_lengths", attention.prefix_lengths.values);
  where_present("packed.query_offsets", attention.packed.query_offsets);
  where_present("packed.key_offsets", attention.packed.key_offsets);
  any_type("query_positions", attention.query_positions.list);
  any_type("key_positions", attention.key_positions.list);
  where_present("mask", attention.mask.values);
  ForEachScheme([&]<class Scheme>() {
    Scheme::ForEachArray(attention,
                         [&](const char* name, auto& table) { std::visit([&](auto& view) { visit(name, view); }, table); });
  });
}

// Checks the options of all schemes that are present; throws InvalidArgument.
inline void CheckSchemes(const Attention& attention, const Shape& shape) {
  ForEachScheme([&]<class Scheme>() {
    if (Scheme::Present(attention)) Scheme::Check(attention, shape);
  });
}

// Calls visit(name, array, pointer to the table) for the arrays of a scheme that are there among tangents, or tangents of
// gradients. refusal: why it has none, or null. Throws InvalidArgument.
template <class Scheme, class Gradients, class Visit>
void CheckTangentsOf(const Attention& attention, const Gradients& tangents, const std::string& prefix, const char* refusal,
                     const Visit& visit) {
  Scheme::ForEachGradient(attention, tangents, [&](const char* gradient, const auto& tangent, const auto* table) {
    if (!tangent.present()) return;
    const std::string name = prefix + (gradient + 2);  // behind d_
    if (refusal) core::Refuse(name, refusal);
    if (!table) core::Refuse(name, "expected none, because the array that it belongs to is not given");
    visit(name.c_str(), tangent, table);
  });
}

// Checks that all schemes that are present let tangents pass, and that those whose tables have tangents take them; visit as
// above. Throws InvalidArgument.
template <class Gradients, class Visit>
void CheckTangents(const Attention& attention, const Gradients& tangents, const Visit& visit) {
  ForEachScheme([&]<class Scheme>() {
    Scheme::ForEachArray(attention, [&](const std::string& name, const auto&) {
      if (!Scheme::kPassesTangents) core::Refuse(name, "expected none in forward mode, which does not support it");
    });
    constexpr const char* kRefusal = "expected none, because forward mode does not support tangents of this array";
    CheckTangentsOf<Scheme>(attention, tangents, "tangents.biases.", Scheme::kHasTangents ? nullptr : kRefusal, visit);
  });
}

// The same of the tangent of the backward pass; gradients: those whose tangents are wanted.
template <class Gradients, class Visit>
void CheckBackwardTangents(const Attention& attention, const Gradients& tangents, const Gradients& gradients,
                           const Visit& visit) {
  ForEachScheme([&]<class Scheme>() {
    Scheme::ForEachArray(attention, [&](const std::string& name, const auto&) {
      if (!Scheme::kPassesTangents) core::Refuse(name, "expected none in second derivatives, which do not support it");
    });
    const char* refusal =
        Scheme::kHasGradientTangents ? nullptr : "expected none, because second derivatives do not support this array";
    CheckTangentsOf<Scheme>(attention, tangents, "tangents.biases.", refusal, visit);
    CheckTangentsOf<Scheme>(attention, gradients, "t_d_biases.", refusal, [](const auto&...) {});
  });
}

// What a task of the backward pass has to take as a whole: schemes gather their gradients in a part for each chunk, which no
// two tasks may add to at the same time, most of them head by head.
inline attention::BackwardLimits LimitsOf(const Attention& attention) {
  attention::BackwardLimits limits;
  ForEachScheme([&]<class Scheme>() {
    if (!Scheme::Present(attention) || !Scheme::template Call<float>::kMeetsTiles) return;
    limits.all_keys |= Scheme::kTakesAllKeys;
    limits.all_queries = true;
    limits.one_head |= Scheme::kHeadByHead;
  });
  return limits;
}

// Calls visit(name, gradient, pointer to the table that it belongs to, or null) for all gradients.
template <class Gradients, class Visit>
void ForEachSchemeGradient(const Attention& attention, Gradients& gradients, const Visit& visit) {
  ForEachScheme([&]<class Scheme>() { Scheme::ForEachGradient(attention, gradients, visit); });
}

// The key without a value that a scheme of the call brings, at most one of them. Such a scheme says `static double
// KeyScore(const Attention&, int64_t row, int64_t head, int64_t query)`, and KeyTangent of the tangents of its tables in the
// place of Attention. tangents: of a call that has some, else null.
template <class T>
attention::ValuelessKey KeyOfSchemes(const Attention& attention, const BiasGradients<T>* tangents = nullptr) {
  attention::ValuelessKey key;
  ForEachScheme([&]<class Scheme>() {
    if constexpr (requires { Scheme::KeyScore(attention, 0, 0, 0); }) {
      if (!Scheme::Present(attention)) return;
      key.score = [&attention](auto... place) { return Scheme::KeyScore(attention, place...); };
      key.tangent = [tangents](auto... place) { return tangents ? Scheme::KeyTangent(*tangents, place...) : 0.0; };
    }
  });
  return key;
}

template <class Sight>
concept JudgesPairs = requires(const Sight& sight, const attention::PairBlock& pairs) { sight.Judge(pairs); };

// The pairs that schemes hide.
class HiddenByScheme final : public attention::HiddenPairs {
 public:
  HiddenByScheme(const Attention& attention, const Shape& shape) {
    ForEachSight([&]<class Scheme>(std::optional<typename Scheme::Sight>& sight) {
      if (!Scheme::Hides(attention)) return;
      sight.emplace(attention, shape);
      any_ = true;
      judges_ |= JudgesPairs<typename Scheme::Sight>;
    });
  }
  bool any() const override { return any_; }
  bool Hidden(int64_t b, int64_t h, int64_t i, int64_t j) const override {
    return std::apply([&](const auto&... sight) { return ((sight && sight->Hidden(b, h, i, j)) || ...); }, sights_);
  }
  bool judges() const override { return judges_; }
  attention::Seen Judge(const attention::PairBlock& pairs) const override {
    attention::Seen seen = attention::Seen::kAll;
    const auto take = [&]<class Sight>(const std::optional<Sight>& sight) {
      if (!sight || seen == attention::Seen::kNone) return;
      if constexpr (JudgesPairs<Sight>) {
        seen = std::min(seen, sight->Judge(pairs));
      } else {
        seen = std::min(seen, attention::Seen::kSome);
      }
    };
    std::apply([&](const auto&... sight) { (take(sight), ...); }, sights_);
    return seen;
  }

 private:
  template <class List>
  struct SightsOf;
  template <class... Scheme>
  struct SightsOf<std::tuple<Scheme...>> {
    using type = std::tuple<std::optional<typename Scheme::Sight>...>;
  };
  template <class Visit>
  void ForEachSight(const Visit& visit) {
    const auto each = [&]<std::size_t... X>(std::index_sequence<X...>) {
      (visit.template operator()<std::tuple_element_t<X, Schemes>>(std::get<X>(sights_)), ...);
    };
    each(std::make_index_sequence<std::tuple_size_v<Schemes>>());
  }

  typename SightsOf<Schemes>::type sights_;
  bool any_ = false, judges_ = false;
};

template <class T>
class SchemeSet {
  template <class List>
  struct CallsOf;
  template <class... Scheme>
  struct CallsOf<std::tuple<Scheme...>> {
    using type = std::tuple<std::optional<typename Scheme::template Call<T>>...>;
  };

 public:
  // wanted: the gradients of the backward pass, or the tangents of the tangent pass; tangents: of the tables, in the tangent of
  // the backward pass.
  explicit SchemeSet(const CallFacts& facts, const BiasGradients<T>& wanted = {}, const BiasGradients<T>& tangents = {})
      : blocks_(facts.shape) {
    Construct(facts, wanted, tangents, static_cast<Schemes*>(nullptr));
    int64_t most = INT64_MAX;
    ForEach([&](const auto& call) {
      call.ShareIn(blocks_);
      most = std::min(most, call.most_blocks());
      output_rows_ += call.output_rows();
      wants_scores_ |= call.wants_scores();
      sums_ += call.sums();
    });
    blocks_.Limit(most);
  }
  SchemeSet(const SchemeSet&) = delete;
  SchemeSet& operator=(const SchemeSet&) = delete;

  using Calls = typename CallsOf<Schemes>::type;
  const Calls& calls() const { return calls_; }
  const Blocks& blocks() const { return blocks_; }
  int64_t output_rows() const { return output_rows_; }
  bool wants_scores() const { return wants_scores_; }

  // Memory that all workers share, laid out before Prepare and Clear, and that of one worker, which is counted only.
  void LayShared(core::Arena& arena) {
    ForEach([&](auto& call) {
      call.LayPrepared(arena);
      call.LayParts(arena, blocks_);
    });
  }
  void LayScratch(core::Arena& arena) const {
    ForEach([&]<class Call>(const Call& call) { typename Call::Scratch(arena, call); });
  }

  void Prepare() const {
    ForEach([](const auto& call) { call.Prepare(); });
  }
  // Steps of clearing and summing gradients; they may run at the same time.
  int64_t sums() const { return sums_; }
  void Clear(int64_t sum) const {
    ForSum(sum, [](const auto& call, int64_t own) { call.Clear(own); });
  }
  void Finish(int64_t sum) const {
    ForSum(sum, [](const auto& call, int64_t own) { call.Finish(own); });
  }
  // Those of the gradients of keys without values.
  int64_t key_sums() const {
    int64_t sums = 0;
    ForEach([&](const auto& call) { sums += call.key_sums(); });
    return sums;
  }
  void SumKey(const attention::ValuelessKeyGradients& gradients, int64_t sum) const {
    ForEach([&](const auto& call) {
      if (sum >= 0 && sum < call.key_sums()) call.SumKey(gradients, sum);
      sum -= call.key_sums();
    });
  }

 private:
  template <class... Scheme>
  void Construct(const CallFacts& facts, const BiasGradients<T>& wanted, const BiasGradients<T>& tangents,
                 std::tuple<Scheme...>*) {
    const auto construct = [&]<class One>(One*) {
      if (!One::Present(facts.attention)) return;
      auto& call = std::get<std::optional<typename One::template Call<T>>>(calls_);
      if constexpr (One::kHasGradientTangents) {
        call.emplace(facts, wanted, tangents);
      } else {
        call.emplace(facts, wanted);
      }
    };
    (construct(static_cast<Scheme*>(nullptr)), ...);
  }

  template <class Visit>
  void ForEach(const Visit& visit) {
    std::apply([&](auto&... call) { ((call ? visit(*call) : void()), ...); }, calls_);
  }
  template <class Visit>
  void ForEach(const Visit& visit) const {
    std::apply([&](const auto&... call) { ((call ? visit(*call) : void()), ...); }, calls_);
  }
  // Calls visit(call, its own step) for one of all steps.
  template <class Visit>
  void ForSum(int64_t sum, const Visit& visit) const {
    ForEach([&](const auto& call) {
      if (sum >= 0 && sum < call.sums()) visit(call, sum);
      sum -= call.sums();
    });
  }

  Calls calls_;
  Blocks blocks_;
  int64_t output_rows_ = 0, sums_ = 0;
  bool wants_scores_ = false;
};

}  // namespace heed::position

#endif  // HEED_POSITION_SCHEME_SET_H_
