// Where gradients are summed up, by itself and on every target: sums stand in the caller's rows or apart, pieces of the queries
// come one after the other or run apart, chunks add to dQ in place or in parts. Rows that nobody adds to are 0, whatever lay
// there. All numbers are small and whole, so that sums are exact in any order.
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "gradient_home_test.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

#include "attention/gradient_home-inl.h"
#include "core/arena.h"
#include "heed/workspace.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {
namespace {

using Elements = std::vector<float>;

// One head, two chunks of keys, and pieces of one panel each.
struct Call {
  static constexpr int64_t kPieces = 3, kChunks = 2, kPanel = 16, kTile = 64, kKeys = 100, kQueries = 40;
  static constexpr Shape kShape{1, 1, 1, kQueries, kKeys, 5, 3};
  static constexpr float kNothing = std::numeric_limits<float>::quiet_NaN();

  static Attention Doubling() {
    Attention attention;
    attention.scale = 2.0;
    return attention;
  }
  const Attention attention = Doubling();
  const attention::HiddenPairs nothing;
  const attention::Plan plan{attention, kShape, nothing};
  attention::Cut cut = attention::CutBackward(kShape, sizeof(float));
  Elements d_q = Elements(kQueries * 5, kNothing), d_k = Elements(kKeys * 5, kNothing), d_v = Elements(kKeys * 3, kNothing);
  Elements key_parts, value_parts, query_parts;
  bool sees[kChunks * kPieces]{};
  std::unique_ptr<attention::BackwardProblem<float>> problem;
  std::unique_ptr<Workspace> workspace;
  std::unique_ptr<attention::BackwardScratch<float>> scratch;

  Call(int64_t pieces, bool apart, bool chunks_apart) {
    cut.panel = kPanel;
    cut.panels = attention::DivideUp(kQueries, kPanel);
    cut.tile = cut.chunk = kTile;
    cut.chunks = kChunks;
    cut.pieces = pieces;
    cut.piece = pieces == 1 ? cut.panels : 1;
    problem = std::make_unique<attention::BackwardProblem<float>>(
        attention::BackwardProblem<float>{attention::ProblemOf(attention, plan, cut, {}, {}, {}), {}, {}});
    const auto view = [](Elements& rows, int64_t count, int64_t width) {
      return core::OperandOf(View<float, 4>::Contiguous(rows.data(), {1, 1, count, width}));
    };
    problem->d_q = view(d_q, kQueries, 5);
    problem->d_k = view(d_k, kKeys, 5);
    problem->d_v = view(d_v, kKeys, 3);
    if (apart) {
      key_parts.assign(static_cast<std::size_t>(pieces * kKeys * cut.head_dim), kNothing);
      value_parts.assign(static_cast<std::size_t>(pieces * kKeys * cut.value_dim), kNothing);
      problem->d_k_parts = key_parts.data();
      problem->d_v_parts = value_parts.data();
      problem->piece_sees = sees;
    }
    query_parts.assign(kQueries * 5, kNothing);
    if (chunks_apart) problem->d_q_parts = query_parts.data();
    const attention::ScratchFacts facts{.attention = attention,
                                        .cut = cut,
                                        .shape = kShape,
                                        .narrow = false,
                                        .scheme_rows = 0,
                                        .sums_pieces = pieces > 1 && !apart};
    core::Arena counted;
    attention::BackwardScratch<float>(counted, facts, {});
    workspace = std::make_unique<Workspace>(counted.used());
    core::Arena arena(workspace->data());
    scratch = std::make_unique<attention::BackwardScratch<float>>(arena, facts, attention::WantedOperands{});
  }
};

// Who says that sums stand in the caller's rows, or that they do not.
struct Products {
  bool in_place;
  bool SumsInPlace(const HeadRows<float>& /*own*/, int64_t /*width*/) const { return in_place; }
};

// The keys of a chunk that a piece reaches: some of the first, none of the second but by the last piece.
attention::KeyRange ReachOf(int64_t chunk, int64_t piece) {
  if (chunk == 0) return {8 + 8 * piece, 40 + 4 * piece};
  return piece == 2 ? attention::KeyRange{70, 90} : attention::KeyRange{};
}

std::string KeysFault(int64_t pieces, bool apart, bool in_place) {
  Call call(pieces, apart, false);
  KeyHome<float> home(*call.problem, *call.scratch);
  for (int64_t chunk = 0; chunk < Call::kChunks; ++chunk) {
    const attention::KeyRange keys{chunk * Call::kTile, std::min((chunk + 1) * Call::kTile, Call::kKeys)};
    for (int64_t piece = 0; piece < pieces; ++piece) {
      home.Begin({0, 0, chunk, piece, 0}, keys, Products{in_place});
      // All panels of the only piece, or the panel of one.
      for (int64_t panel = pieces == 1 ? 0 : piece; panel < (pieces == 1 ? Call::kPieces : piece + 1); ++panel) {
        const attention::KeyRange reach = ReachOf(chunk, panel);
        if (reach.empty()) continue;
        home.Touch(reach);
        for (int64_t j = reach.begin; j < reach.end; ++j) {
          for (int64_t c = 0; c < 5; ++c) *home.d_keys().At(j - keys.begin, c) += static_cast<float>(1 + panel + c);
          for (int64_t c = 0; c < 3; ++c) *home.d_values().At(j - keys.begin, c) += static_cast<float>(10 + panel + c);
        }
      }
      home.End();
    }
    if (apart) FinishKeys(*call.problem, 0, 0, chunk);
  }
  for (int64_t j = 0; j < Call::kKeys; ++j)
    for (int64_t c = 0; c < 5; ++c) {
      float d_key = 0, d_value = 0;
      for (int64_t panel = 0; panel < Call::kPieces; ++panel) {
        const attention::KeyRange reach = ReachOf(j / Call::kTile, panel);
        if (j < reach.begin || j >= reach.end) continue;
        d_key += static_cast<float>(1 + panel + c);
        d_value += static_cast<float>(10 + panel + c);
      }
      if (call.d_k[static_cast<std::size_t>(j * 5 + c)] != d_key) return "dK of key " + std::to_string(j);
      if (c < 3 && call.d_v[static_cast<std::size_t>(j * 3 + c)] != d_value) return "dV of key " + std::to_string(j);
    }
  return {};
}

// The first panel of a chunk that sees all of it stores, and nothing is cleared before.
std::string StoreFault(bool in_place) {
  Call call(1, false, false);
  KeyHome<float> home(*call.problem, *call.scratch);
  home.Begin({0, 0, 0, 0, 0}, {0, Call::kTile}, Products{in_place});
  home.Store();
  for (int64_t j = 0; j < Call::kTile; ++j) {
    for (int64_t c = 0; c < 5; ++c) *home.d_keys().At(j, c) = static_cast<float>(j + c);
    for (int64_t c = 0; c < 3; ++c) *home.d_values().At(j, c) = static_cast<float>(j - c);
  }
  home.Touch({0, Call::kTile});
  home.End();
  for (int64_t j = 0; j < Call::kTile; ++j)
    if (call.d_k[static_cast<std::size_t>(j * 5 + 4)] != static_cast<float>(j + 4)) return "key " + std::to_string(j);
  return {};
}

// Each chunk adds the number of the query, of the element and its own, times the scale of 2.
std::string QueriesFault(bool apart) {
  Call call(1, false, apart);
  QueryHome<float> home(*call.problem, *call.scratch);
  for (int64_t index = 0; index < call.cut.panels; ++index) {
    const Panel panel = MakePanel(call.plan, call.cut, 0, 0, index, call.scratch->lanes);
    for (int64_t chunk = 0; chunk < Call::kChunks; ++chunk) {
      for (int64_t c = 0; c < 5; ++c)
        for (int64_t w = 0; w < panel.width; ++w)
          call.scratch->d_queries[c * panel.width + w] = static_cast<float>(panel.begin + w + 10 * c + 100 * (chunk + 1));
      home.Add(panel, chunk);
    }
  }
  if (apart) FinishQueries(*call.problem, 0, 0, 0, call.cut.panels);
  for (int64_t i = 0; i < Call::kQueries; ++i)
    for (int64_t c = 0; c < 5; ++c)
      if (call.d_q[static_cast<std::size_t>(i * 5 + c)] != static_cast<float>(2 * (2 * i + 20 * c + 300)))
        return "query " + std::to_string(i);
  return {};
}

std::string FirstFault() {
  for (const bool in_place : {true, false}) {
    std::string where = in_place ? "in place: " : "apart: ";
    if (const std::string fault = KeysFault(1, false, in_place); !fault.empty()) return where.append(fault);
    if (const std::string fault = StoreFault(in_place); !fault.empty()) return where.append("stored, ").append(fault);
    const std::string pieces = KeysFault(Call::kPieces, false, in_place);
    if (!pieces.empty()) return where.append("pieces, ").append(pieces);
  }
  if (const std::string fault = KeysFault(Call::kPieces, true, false); !fault.empty()) return "pieces apart: " + fault;
  for (const bool apart : {false, true})
    if (const std::string fault = QueriesFault(apart); !fault.empty()) return (apart ? "chunks apart: " : "chunks: ") + fault;
  return {};
}

}  // namespace
}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <gtest/gtest.h>

#include "heed/attention.h"
#include "targets.h"

namespace heed {
HWY_EXPORT(FirstFault);

namespace {

class GradientHome : public OnTarget {};

TEST_P(GradientHome, HoldsTheSumOfWhatWasAddedAndZerosElsewhere) { EXPECT_EQ(HWY_DYNAMIC_DISPATCH(FirstFault)(), ""); }

HEED_ON_TARGETS(GradientHome);

}  // namespace
}  // namespace heed
#endif
