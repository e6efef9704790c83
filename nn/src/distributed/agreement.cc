#include "distributed/agreement.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <span>
#include <string_view>

#include <ATen/ATen.h>

#include "heed/error.h"
#include "heed/nn/process_group.h"
#include "refuse.h"
#include "tensor_view.h"

namespace heed::nn::distributed {
namespace {

constexpr std::size_t kBytes = 16384;  // of a message
// Numbers before the text: the terms, whether it is a refusal, bytes of the text.
constexpr std::size_t kHeader = 6 * sizeof(int64_t), kText = kBytes - kHeader;
constexpr std::size_t kShort = 64;  // bytes of a fact that is shown though there are many
constexpr std::size_t kMostReason = 2000;

struct Answer {
  Terms terms;
  bool refused = false;
  std::string text;
};

// The first bytes of a text, at most so many, without half a character at their end.
std::string Start(const std::string& text, std::size_t bytes) {
  const auto continues = [&] { return bytes < text.size() && (static_cast<unsigned char>(text[bytes]) & 0xC0U) == 0x80U; };
  while (bytes > 0 && continues()) --bytes;
  return text.substr(0, bytes);
}

// Names and what they are, each with a zero behind it.
std::string Encoded(const Facts& facts, bool shortened) {
  std::string text;
  for (const auto& [name, fact] : facts) {
    text.append(name).push_back('\0');
    text.append(shortened && fact.size() > kShort ? Start(fact, kShort - 24) + " " + Digest(std::as_bytes(std::span(fact)))
                                                  : fact)
        .push_back('\0');
  }
  return text;
}

// The whole where it goes into a message; else what is long in it is shortened, and differences there named, not shown; and
// what is more still is one number.
std::string Fitting(const Facts& facts) {
  std::string text = Encoded(facts, /*shortened=*/false);
  if (text.size() <= kText) return text;
  const std::string digest = Digest(std::as_bytes(std::span(text)));
  text = Encoded(facts, /*shortened=*/true);
  return text.size() <= kText ? text : Encoded({{"arguments", digest}}, /*shortened=*/false);
}

Facts Decoded(const std::string& text) {
  Facts facts;
  std::size_t at = 0;
  const auto word = [&] {
    const std::size_t end = std::min(text.find('\0', at), text.size());
    std::string found = text.substr(at, end - at);
    at = end + 1;
    return found;
  };
  while (at < text.size()) {
    std::string name = word();
    facts.emplace_back(std::move(name), word());
  }
  return facts;
}

at::Tensor MessageOf(const Answer& answer) {
  at::Tensor message = at::zeros({static_cast<int64_t>(kBytes)}, at::kByte);
  const std::array<int64_t, 6> header{answer.terms.lengths[0], answer.terms.lengths[1],
                                      answer.terms.lengths[2], answer.terms.seed,
                                      answer.refused ? 1 : 0,  static_cast<int64_t>(std::min(answer.text.size(), kText))};
  const std::span<uint8_t> bytes = ElementsOf<uint8_t>(message);
  std::memcpy(bytes.data(), header.data(), kHeader);
  std::memcpy(bytes.data() + kHeader, answer.text.data(), static_cast<std::size_t>(header[5]));
  return message;
}

Answer AnswerOf(const at::Tensor& message) {
  const std::span<const uint8_t> bytes = ElementsOf<const uint8_t>(message);
  std::array<int64_t, 6> header{};
  std::memcpy(header.data(), bytes.data(), kHeader);
  const std::span<const uint8_t> text_bytes = bytes.subspan(kHeader, std::min(static_cast<std::size_t>(header[5]), kText));
  std::string text(text_bytes.begin(), text_bytes.end());
  return {{{header[0], header[1], header[2]}, header[3]}, header[4] != 0, std::move(text)};
}

thread_local int64_t answers_given = 0;

// What each rank answers.
std::vector<Answer> Exchanged(const Exchange& exchange, const Answer& own) {
  ++answers_given;
  const at::Tensor message = MessageOf(own);
  std::vector<at::Tensor> messages(static_cast<std::size_t>(exchange.ranks()), message);
  ByPeer leaving, arriving;
  for (const int peer : exchange.Others()) {
    at::Tensor& theirs = messages[static_cast<std::size_t>(peer)];
    theirs = at::empty_like(message);
    leaving.emplace_back(peer, message);
    arriving.emplace_back(peer, theirs);
  }
  exchange.Swap(leaving, arriving, "whose arguments are compared before anything is computed", /*counted=*/false);
  std::vector<Answer> answers;
  answers.reserve(messages.size());
  for (const at::Tensor& theirs : messages) answers.push_back(AnswerOf(theirs));
  return answers;
}

// "ranks 0, 2 have 0.1; rank 1 has 0.2"; empty where all have the same.
std::string Sides(const std::vector<std::string>& by_rank) {
  std::vector<std::pair<std::string, std::vector<std::size_t>>> sides;
  for (std::size_t rank = 0; rank < by_rank.size(); ++rank) {
    auto side = std::ranges::find(sides, by_rank[rank], [](const auto& of) { return of.first; });
    if (side == sides.end()) side = sides.insert(sides.end(), {by_rank[rank], {}});
    side->second.push_back(rank);
  }
  if (sides.size() < 2) return {};
  std::string text;
  for (const auto& [fact, ranks] : sides) {
    text += text.empty() ? "rank" : "; rank";
    if (ranks.size() > 1) text += 's';
    for (std::size_t r = 0; r < ranks.size(); ++r) text += (r == 0 ? " " : ", ") + std::to_string(ranks[r]);
    text += ranks.size() > 1 ? " have " : " has ";
    text += fact;
  }
  return text;
}

std::string Differences(const std::vector<Answer>& answers) {
  std::vector<Facts> by_rank;
  std::vector<std::string> names;
  by_rank.reserve(answers.size());
  for (const Answer& answer : answers) by_rank.push_back(Decoded(answer.text));
  for (const Facts& facts : by_rank) {
    for (const auto& fact : facts)
      if (std::ranges::find(names, fact.first) == names.end()) names.push_back(fact.first);
  }
  std::string found;
  for (const std::string& name : names) {
    std::vector<std::string> sides;
    for (const Facts& facts : by_rank) {
      const auto fact = std::ranges::find(facts, name, [](const auto& of) { return of.first; });
      sides.push_back(fact == facts.end() ? "None" : fact->second);
    }
    const std::string difference = Sides(sides);
    if (difference.empty()) continue;
    if (!found.empty()) found += " | ";
    found.append(name).append(": ").append(difference);
  }
  return found;
}

std::vector<Terms> Agree(const Exchange& exchange, const Terms& terms, const Facts& facts) {
  const std::vector<Answer> answers = Exchanged(exchange, {terms, false, Fitting(facts)});
  std::string refused;
  for (std::size_t rank = 0; rank < answers.size(); ++rank) {
    if (!answers[rank].refused) continue;
    refused += c10::str(refused.empty() ? "" : "; ", "rank ", rank, ": ", answers[rank].text);
  }
  if (!refused.empty()) throw Error(exchange.function() + ": refused on other ranks: " + refused);
  if (std::ranges::any_of(answers, [&](const Answer& answer) { return answer.text != answers[0].text; })) {
    Refuse(exchange.function(), ": the ranks disagree: ", Differences(answers));
  }
  std::vector<Terms> agreed;
  agreed.reserve(answers.size());
  for (const Answer& answer : answers) agreed.push_back(answer.terms);
  return agreed;
}

}  // namespace

void TellRefusal(const Exchange& exchange, const std::string& reason) {
  Exchanged(exchange, {{}, true, Start(reason, kMostReason)});
}

int64_t Answers() { return answers_given; }

Facts Introduction(const Exchange& exchange, const std::string& version) {
  return {{"version", version}, {"function", exchange.function()}};
}

std::vector<Terms> AgreeOn(const Exchange& exchange, const std::function<Statement()>& state) {
  Statement own;
  try {
    own = state();
  } catch (const InvalidArgument& error) {
    TellRefusal(exchange, std::string("InvalidArgument: ") + error.what());
    throw;
  } catch (const std::exception& error) {  // whatever it is, the other ranks wait for an answer
    TellRefusal(exchange, ReasonOf(error));
    throw;
  }
  return Agree(exchange, own.terms, own.facts);
}

}  // namespace heed::nn::distributed
