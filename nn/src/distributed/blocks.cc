#include "distributed/blocks.h"

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>

#include <ATen/ATen.h>

#include "distributed/shifted_program.h"
#include "refuse.h"
#include "tensor_view.h"

namespace heed::nn::distributed {
namespace {

struct Meeting {
  Piece queries, keys;
};

// The queries and keys that meet, counted as in their sequence; absent where none do.
std::optional<Meeting> MeetingOf(const std::variant<Order, ListedOrder>& order, Piece queries, Piece keys) {
  return std::visit(
      [&](const auto& of) -> std::optional<Meeting> {
        const Piece met = of.KeysOf(queries, keys), meet = of.QueriesOf(queries, met);
        if (meet.empty() || met.empty()) return std::nullopt;
        return Meeting{meet, met};
      },
      order);
}

at::Tensor Narrowed(const at::Tensor& tensor, int64_t dim, Piece piece) {
  return tensor.narrow(dim, piece.start, piece.length());
}

// Batch rows of an option; those that serve all rows stay.
at::Tensor BatchRowsOf(const at::Tensor& tensor, Piece rows) {
  return tensor.defined() && tensor.size(0) != 1 ? Narrowed(tensor, 0, rows) : tensor;
}

// [.., Nq or 1, Nk or 1], cut to a block.
at::Tensor OverPairs(at::Tensor array, const Block& block) {
  if (array.size(2) != 1) array = Narrowed(array, 2, block.queries);
  return array.size(3) != 1 ? Narrowed(array, 3, block.keys) : array;
}

// Cuts what stands beside tokens to those of a block, of options that are already those of its batch rows.
void CutLists(const Block& block, AttentionTensors& tensors) {
  if (tensors.query_positions.defined()) tensors.query_positions = Narrowed(tensors.query_positions, 1, block.queries);
  if (tensors.key_positions.defined()) tensors.key_positions = Narrowed(tensors.key_positions, 1, block.keys);
  if (tensors.key_lengths.defined() && tensors.key_lengths.dim() == 2)
    tensors.key_lengths = Narrowed(tensors.key_lengths, 1, block.queries);
  if (tensors.bias.defined()) tensors.bias = OverPairs(tensors.bias, block);
  if (tensors.mask.defined()) tensors.mask = OverPairs(tensors.mask, block);
}

std::vector<int64_t> Numbers(const at::Tensor& tensor) {
  const at::Tensor contiguous = tensor.contiguous();
  const std::span<const int64_t> numbers = ElementsOf<const int64_t>(contiguous);
  return {numbers.begin(), numbers.end()};
}

// A run of whole sequences with one more; those between that have no queries or no keys come with it.
Block Appended(const std::optional<Block>& run, int64_t b, Piece queries, Piece keys) {
  if (!run) return {{b, b + 1}, queries, keys, queries.start, keys.start, /*whole=*/true};
  Block longer = *run;
  longer.rows.stop = b + 1;
  longer.queries.stop = queries.stop;
  longer.keys.stop = keys.stop;
  return longer;
}

Piece Between(const std::vector<int64_t>& offsets, std::size_t sequence) { return {offsets[sequence], offsets[sequence + 1]}; }

// Blocks cut the sequences, so that no rank's own call sees where the whole ends.
void RequireEnd(const std::string& name, const std::vector<int64_t>& offsets, int64_t end, const std::string& what) {
  if (!offsets.empty() && offsets.back() == end) return;
  Refuse(name, ": expected to end at the ", end, what, " of all ranks, got ",
         offsets.empty() ? "none" : std::to_string(offsets.back()));
}

}  // namespace

Whole::Whole(AttentionOptions options, int64_t batch, int64_t q_len, int64_t kv_len)
    : options_(std::move(options)), batch_(batch), lengths_{q_len, kv_len} {
  const AttentionTensors& tensors = options_.tensors();
  if (tensors.packed_queries.defined()) {
    query_offsets_ = Numbers(tensors.packed_queries);
    key_offsets_ = Numbers(tensors.packed_keys);
    RequireEnd("query_offsets", query_offsets_, q_len, " queries");
    RequireEnd("key_offsets", key_offsets_, kv_len, " keys");
  } else {
    order_ = OrderOf(options_, q_len, kv_len);
  }
}

std::vector<Block> Whole::Blocks(Piece queries, Piece keys) const {
  if (!order_) return PackedBlocks(queries, keys);
  const std::optional<Meeting> met = MeetingOf(*order_, queries, keys);
  if (!met) return {};
  return {Block{{0, batch_}, met->queries, met->keys, met->queries.start, met->keys.start}};
}

std::vector<Block> Whole::PackedBlocks(Piece queries, Piece keys) const {
  std::vector<Block> blocks;
  std::optional<Block> run;
  const auto after = std::ranges::upper_bound(query_offsets_, queries.start) - query_offsets_.begin();
  for (auto b = static_cast<std::size_t>(std::max<std::ptrdiff_t>(0, after - 1)); b + 1 < query_offsets_.size(); ++b) {
    const Piece own_queries = Between(query_offsets_, b), own_keys = Between(key_offsets_, b);
    if (own_queries.start >= queries.stop) break;
    const Piece inside_queries = own_queries.Within(queries), inside_keys = own_keys.Within(keys);
    if (inside_queries.empty() || inside_keys.empty()) continue;
    const auto row = static_cast<int64_t>(b);
    if (inside_queries == own_queries && inside_keys == own_keys) {
      run = Appended(run, row, own_queries, own_keys);
      continue;
    }
    const Piece rows{row, row + 1};
    const std::optional<Meeting> met = MeetingOf(OrderOf(OfRows(rows), own_queries.length(), own_keys.length()),
                                                 inside_queries.Moved(-own_queries.start), inside_keys.Moved(-own_keys.start));
    if (!met) continue;
    blocks.push_back({rows, met->queries, met->keys, met->queries.start + own_queries.start, met->keys.start + own_keys.start});
  }
  if (run) blocks.push_back(*run);
  return blocks;
}

Piece Whole::Needed(Piece queries, Piece keys) const {
  Piece needed{keys.start, keys.start};
  for (const Block& block : Blocks(queries, keys)) needed = needed.Joined(block.AllKeys());
  return needed;
}

// The options without the offsets of packed sequences, cut to some batch rows.
AttentionOptions Whole::OfRows(Piece rows) const {
  AttentionOptions options = options_;
  AttentionTensors& tensors = options.tensors();
  tensors.packed_queries = at::Tensor(), tensors.packed_keys = at::Tensor();
  tensors.sinks = at::Tensor();  // taken in behind all keys
  for (at::Tensor* of_rows : {&tensors.query_lengths, &tensors.key_lengths, &tensors.prefix_lengths, &tensors.query_positions,
                              &tensors.key_positions, &tensors.bias, &tensors.mask}) {
    *of_rows = BatchRowsOf(*of_rows, rows);
  }
  return options;
}

AttentionOptions Whole::OptionsOf(const Block& block) const {
  AttentionOptions options = OfRows(block.rows);
  First first{.batch = block.rows.start};
  if (block.whole) {
    AddOffsets(block.rows, options);
    CutLists(Longest(block.rows), options.tensors());
  } else {
    Cut(block, options);
    first.query = block.queries.start, first.key = block.keys.start;
  }
  ShiftPrograms(first, options);
  if (options.dropout() != 0.0) {
    options.batch_offset(options.batch_offset() + first.batch)
        .first_query(options.first_query() + first.query)
        .first_key(options.first_key() + first.key);
  }
  return options;
}

at::Tensor Whole::BiasOf(const at::Tensor& bias, const Block& block) const {
  return OverPairs(BatchRowsOf(bias, block.rows), block.whole ? Longest(block.rows) : block);
}

Whole::Lengths Whole::LengthsOf(const Block& block) const {
  if (order_) return lengths_;
  const auto row = static_cast<std::size_t>(block.rows.start);
  return {Between(query_offsets_, row).length(), Between(key_offsets_, row).length()};
}

// As many queries and keys as the longest of some packed sequences has.
Block Whole::Longest(Piece rows) const {
  Block longest{rows, {}, {}};
  for (auto b = static_cast<std::size_t>(rows.start); b < static_cast<std::size_t>(rows.stop); ++b) {
    longest.queries.stop = std::max(longest.queries.stop, Between(query_offsets_, b).length());
    longest.keys.stop = std::max(longest.keys.stop, Between(key_offsets_, b).length());
  }
  return longest;
}

void Whole::AddOffsets(Piece rows, AttentionOptions& options) const {
  const auto of_rows = [&](const at::Tensor& offsets) {
    const at::Tensor own = offsets.narrow(0, rows.start, rows.length() + 1);
    return own - own[0];
  };
  options.tensors().packed_queries = of_rows(options_.tensors().packed_queries);
  options.tensors().packed_keys = of_rows(options_.tensors().packed_keys);
}

// What changes of the options where only some queries and keys are there.
void Whole::Cut(const Block& block, AttentionOptions& options) const {
  AttentionTensors& tensors = options.tensors();
  const auto [q_len, kv_len] = LengthsOf(block);
  const int64_t first_query = FirstQuery(options, q_len, kv_len);
  CutLists(block, tensors);
  for (const auto& [lengths, piece] :
       {std::pair{&tensors.query_lengths, block.queries}, std::pair{&tensors.key_lengths, block.keys},
        std::pair{&tensors.prefix_lengths, block.keys}}) {
    if (lengths->defined()) *lengths = (*lengths - piece.start).clamp(0, piece.length());
  }
  if (!tensors.query_positions.defined()) options.query_offset(first_query + block.queries.start);
  if (!tensors.key_positions.defined()) options.key_offset(options.key_offset().value_or(0) + block.keys.start);
  // Positions are given: a query sees the keys up to its own.
  if (options.causal() != Causal::kNone) options.causal(Causal::kBottomRight);
}

}  // namespace heed::nn::distributed
