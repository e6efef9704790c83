#include "bench/suites/call_case.h"

#include <algorithm>
#include <charconv>
#include <set>
#include <sstream>
#include <string_view>

#include <fmt/core.h>

#include "heed/error.h"

namespace heed::lab {
namespace {

// Sizes and products of sizes stay far within 64 bits; what memory holds is the allocator's to say.
constexpr int64_t kMostLength = int64_t{1} << 30, kMostHeads = 1 << 16, kMostWidth = 1 << 12, kMostThreads = 1024;

class CaseReader {
 public:
  CaseReader(const std::string& text, const std::string& name) : name_(name) {
    std::istringstream stream(text);
    for (std::string word; stream >> word;) words_.push_back(word);
  }

  CallCase Read() {
    CallCase c;
    ReadShape(c.shape);
    for (std::size_t place = 4; place < words_.size(); ++place) ReadWord(words_[place], c);
    return c;
  }

 private:
  [[noreturn]] void Refuse(const std::string& expected, const std::string& got) const {
    throw InvalidArgument(fmt::format("{}: expected {}, got '{}'", name_, expected, got));
  }

  int64_t Number(std::string_view digits, int64_t low, int64_t high, const std::string& word) const {
    int64_t number = 0;
    const auto [rest, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
    if (error != std::errc() || rest != digits.data() + digits.size() || number < low || number > high)
      Refuse(fmt::format("a whole number from {} to {} in {}", low, high, word), std::string(digits));
    return number;
  }

  // "H8:2" as {8, 2}, "H8" as {8, 8}.
  std::pair<int64_t, int64_t> Pair(std::size_t place, char letter, const char* meaning, int64_t high) const {
    const std::string word = place < words_.size() ? words_[place] : std::string();
    if (word.empty() || word[0] != letter) Refuse(fmt::format("{} as word {} of a case", meaning, place + 1), word);
    const std::string_view numbers = std::string_view(word).substr(1);
    const std::size_t colon = numbers.find(':');
    const int64_t first = Number(numbers.substr(0, colon), 1, high, word);
    return {first, colon == std::string_view::npos ? first : Number(numbers.substr(colon + 1), 1, high, word)};
  }

  void ReadShape(Shape& shape) const {
    const auto batch = Pair(0, 'B', "the batch, as B2,", kMostLength);
    if (words_[0].find(':') != std::string::npos) Refuse("one number after B", words_[0]);
    const auto heads = Pair(1, 'H', "query and key heads, as H8 or H8:2,", kMostHeads);
    const auto lengths = Pair(2, 'n', "queries and keys, as n512 or n1:4096,", kMostLength);
    const auto widths = Pair(3, 'd', "widths of keys and values, as d64 or d64:32,", kMostWidth);
    if (heads.first % heads.second != 0) Refuse("a number of key heads that divides the query heads", words_[1]);
    shape = {batch.first, heads.first, heads.second, lengths.first, lengths.second, widths.first, widths.second};
  }

  void ReadWord(const std::string& word, CallCase& c) {
    const std::size_t equals = word.find('=');
    const auto type = std::ranges::find(TypeNames(), word);
    const std::string key = type != TypeNames().end() ? "a type" : word.substr(0, equals);
    if (!seen_.insert(key).second) Refuse(key + " once", word);
    if (type != TypeNames().end()) {
      c.type = static_cast<BenchType>(type - TypeNames().begin());
    } else if (word == "causal") {
      c.causal = Causal::kBottomRight;
    } else if (word == "key-lengths") {
      c.key_lengths = true;
    } else if (word == "query-lengths") {
      c.query_lengths = true;
    } else if (word == "mask") {
      c.mask = true;
    } else if (word == "bias") {
      c.bias = CallCase::Bias::kConstant;
    } else {
      ReadOption(key, equals == std::string::npos ? "" : word.substr(equals + 1), word, c);
    }
  }

  void ReadOption(const std::string& key, const std::string& value, const std::string& word, CallCase& c) const {
    if (key == "causal") {
      if (value != "top-left") Refuse("causal or causal=top-left", word);
      c.causal = Causal::kTopLeft;
    } else if (key == "window") {
      c.window = ReadWindow(value, word);
    } else if (key == "bias") {
      if (value != "trainable" && value != "relative") Refuse("bias, bias=trainable or bias=relative", word);
      c.bias = value == "trainable" ? CallCase::Bias::kTrainable : CallCase::Bias::kTrainableRelative;
    } else if (key == "dropout") {
      const auto [rest, error] = std::from_chars(value.data(), value.data() + value.size(), c.dropout);
      if (error != std::errc() || rest != value.data() + value.size() || !(c.dropout > 0 && c.dropout < 1))
        Refuse("a number between 0 and 1 in " + word, value);
    } else if (key == "threads") {
      c.threads = static_cast<int>(Number(value, 1, kMostThreads, word));
    } else if (key == "pass") {
      if (value != "forward" && value != "both") Refuse("pass=forward or pass=both", word);
      c.pass = value == "forward" ? BenchPass::kForward : BenchPass::kForwardBackward;
    } else {
      Refuse("a type, causal, window=, key-lengths, query-lengths, mask, bias, dropout=, threads= or pass=", word);
    }
  }

  Window ReadWindow(const std::string& value, const std::string& word) const {
    const std::size_t colon = value.find(':');
    if (colon == std::string::npos) return {Number(value, 1, kMostLength, word) - 1, 0};
    return {Number(value.substr(0, colon), -1, kMostLength, word), Number(value.substr(colon + 1), -1, kMostLength, word)};
  }

  std::string name_;
  std::vector<std::string> words_;
  std::set<std::string> seen_;  // what has been said, by the word's part before '='
};

std::string Doubled(char letter, int64_t first, int64_t second) {
  return first == second ? fmt::format("{}{}", letter, first) : fmt::format("{}{}:{}", letter, first, second);
}

}  // namespace

const std::vector<std::string>& TypeNames() {
  static const std::vector<std::string> names = {"float32", "bfloat16", "float16", "float64"};
  return names;
}

int ElementBytes(BenchType type) { return type == BenchType::kDouble ? 8 : type == BenchType::kFloat ? 4 : 2; }

bool CallCase::BoundByReading() const {
  constexpr int64_t kMostQueries = 8;  // of a key head: a line of keys is then used up to so often
  return pass == BenchPass::kForward && shape.q_len < shape.kv_len && !window.present() && !key_lengths && !mask &&
         bias == Bias::kNone && causal != Causal::kTopLeft && shape.q_len * (shape.q_heads / shape.kv_heads) <= kMostQueries;
}

std::string ShapeText(const Shape& shape) {
  return fmt::format("B{} {} {} {}", shape.batch, Doubled('H', shape.q_heads, shape.kv_heads),
                     Doubled('n', shape.q_len, shape.kv_len), Doubled('d', shape.head_dim, shape.value_dim));
}

std::string OptionText(const CallCase& c) {
  std::string text;
  const auto add = [&text](bool present, const std::string& word) {
    if (present) text += (text.empty() ? "" : " ") + word;
  };
  add(c.causal == Causal::kBottomRight, "causal");
  add(c.causal == Causal::kTopLeft, "causal=top-left");
  const Window& window = c.window;
  add(window.present() && window.left >= 0 && window.right == 0, fmt::format("window={}", window.left + 1));
  add(window.present() && (window.left < 0 || window.right != 0), fmt::format("window={}:{}", window.left, window.right));
  add(c.key_lengths, "key-lengths");
  add(c.query_lengths, "query-lengths");
  add(c.mask, "mask");
  add(c.bias == CallCase::Bias::kConstant, "bias");
  add(c.bias == CallCase::Bias::kTrainable, "bias=trainable");
  add(c.bias == CallCase::Bias::kTrainableRelative, "bias=relative");
  add(c.dropout > 0, fmt::format("dropout={}", c.dropout));
  return text;
}

std::string TextOf(const CallCase& c) {
  const std::string options = OptionText(c);
  return fmt::format("{} {}{}{} threads={} pass={}", ShapeText(c.shape), TypeNames()[static_cast<std::size_t>(c.type)],
                     options.empty() ? "" : " ", options, c.threads, c.pass == BenchPass::kForward ? "forward" : "both");
}

CallCase ParseCase(const std::string& text, const std::string& name) { return CaseReader(text, name).Read(); }

std::string CaseGrammar() {
  return "  B2 H8:2 n1:4096 d64:32   batch, query and key heads, queries and keys, widths of keys and values\n"
         "  bfloat16                 type, float32 by default; float16, float64\n"
         "  causal                   the last query sees all keys; causal=top-left: the first sees the first\n"
         "  window=128               128 keys, the last one the query's own; window=64:64: 64 before and 64 after; -1: all\n"
         "  key-lengths query-lengths   from an eighth in the first row of the batch to all in the last\n"
         "  mask                     a quarter of the pairs hidden\n"
         "  bias                     a matrix a head; bias=trainable: with a gradient; bias=relative: a trainable value an "
         "offset\n"
         "  dropout=0.1 threads=2    pass=forward, or both (default)\n";
}

int64_t LengthOf(int64_t total, int64_t batch, int64_t b) {
  const int64_t shortest = total / 8;
  return batch == 1 ? shortest : shortest + (total - shortest) * b / (batch - 1);
}

std::pair<int64_t, int64_t> KeysOf(const CallCase& c, int64_t b, int64_t query) {
  const int64_t position = c.PositionOf(query);
  int64_t first = 0, last = c.shape.kv_len;
  if (c.causal != Causal::kNone) last = std::min(last, position + 1);
  if (c.window.left >= 0) first = std::max(first, position - c.window.left);
  if (c.window.right >= 0) last = std::min(last, position + c.window.right + 1);
  if (c.key_lengths) last = std::min(last, LengthOf(c.shape.kv_len, c.shape.batch, b));
  const bool padding = c.query_lengths && query >= LengthOf(c.shape.q_len, c.shape.batch, b);
  return last <= first || padding ? std::pair<int64_t, int64_t>{0, 0} : std::pair{first, last};
}

int64_t DifferentRows(const CallCase& c) { return c.key_lengths || c.query_lengths ? c.shape.batch : 1; }

int64_t PairsOf(const CallCase& c) {
  const int64_t rows = DifferentRows(c);
  int64_t pairs = 0;
  for (int64_t b = 0; b < rows; ++b)
    for (int64_t i = 0; i < c.shape.q_len; ++i) {
      const auto [first, last] = KeysOf(c, b, i);
      pairs += last - first;
    }
  return pairs * (c.shape.batch / rows);
}

}  // namespace heed::lab
