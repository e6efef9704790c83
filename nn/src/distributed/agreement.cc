#include "distributed/agreement.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <nlohmann/json.hpp>

#include "heed/error.h"
#include "heed/nn/process_group.h"
#include "refuse.h"
#include "tensor_view.h"

namespace heed::nn::distributed {
namespace {

constexpr std::size_t kBytes = 16384, kText = kBytes - 128;  // of a message, and of the words in it
constexpr std::size_t kShort = 64;                           // bytes of a fact that is shown though there are many
constexpr std::size_t kMostReason = 2000;

struct Answer {
  Terms terms;
  bool refused = false;
  std::string reason;
  Facts facts;
};

// The first bytes of a text, at most so many, without half a character at their end.
std::string Start(const std::string& text, std::size_t bytes) {
  const auto continues = [&] { return bytes < text.size() && (static_cast<unsigned char>(text[bytes]) & 0xC0U) == 0x80U; };
  while (bytes > 0 && continues()) --bytes;
  return text.substr(0, bytes);
}

// The whole where it goes into a message; else what is long in it is shortened, and differences there named, not shown; and
// what is more still is one number.
Facts Fitting(Facts facts) {
  const std::vector<uint8_t> whole = nlohmann::json::to_msgpack(facts);
  if (whole.size() <= kText) return facts;
  for (auto& [name, fact] : facts)
    if (fact.size() > kShort) fact = Start(fact, kShort - 24) + " " + Digest(std::as_bytes(std::span(fact)));
  if (nlohmann::json::to_msgpack(facts).size() <= kText) return facts;
  return {{"arguments", Digest(std::as_bytes(std::span(whole)))}};
}

at::Tensor MessageOf(const Answer& answer) {
  const std::vector<uint8_t> packed =
      nlohmann::json::to_msgpack({answer.terms.lengths, answer.terms.seed, answer.refused, answer.reason, answer.facts});
  at::Tensor message = at::zeros({static_cast<int64_t>(kBytes)}, at::kByte);
  std::ranges::copy(packed, ElementsOf<uint8_t>(message).begin());
  return message;
}

Answer AnswerOf(const at::Tensor& message) {
  const std::span<const uint8_t> bytes = ElementsOf<const uint8_t>(message);
  const nlohmann::json packed = nlohmann::json::from_msgpack(bytes.begin(), bytes.end(), /*strict=*/false);
  return {{packed[0].get<std::array<int64_t, 3>>(), packed[1].get<int64_t>()},
          packed[2].get<bool>(),
          packed[3].get<std::string>(),
          packed[4].get<Facts>()};
}

thread_local int64_t answers_given = 0;

// What each rank answers.
std::vector<Answer> Exchanged(const Exchange& exchange, const Answer& own) {
  ++answers_given;
  const std::vector<at::Tensor> messages(static_cast<std::size_t>(exchange.ranks()), MessageOf(own));
  std::vector<at::Tensor> rooms;
  for (const at::Tensor& message : messages) rooms.push_back(at::empty_like(message));
  std::vector<Answer> answers;
  for (const at::Tensor& theirs : exchange.Swap(
           messages, std::move(rooms), "whose arguments are compared before anything is computed", /*counted=*/false)) {
    try {
      answers.push_back(AnswerOf(theirs));
    } catch (const nlohmann::json::exception&) {
      Refuse(exchange.function(), ": rank ", answers.size(), " answers as another version of heed does");
    }
  }
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
  std::vector<std::string> names;
  for (const Answer& answer : answers) {
    for (const auto& fact : answer.facts)
      if (std::ranges::find(names, fact.first) == names.end()) names.push_back(fact.first);
  }
  std::string found;
  for (const std::string& name : names) {
    std::vector<std::string> sides;
    for (const Answer& answer : answers) {
      const auto fact = std::ranges::find(answer.facts, name, [](const auto& of) { return of.first; });
      sides.push_back(fact == answer.facts.end() ? "None" : fact->second);
    }
    const std::string difference = Sides(sides);
    if (difference.empty()) continue;
    if (!found.empty()) found += " | ";
    found.append(name).append(": ").append(difference);
  }
  return found;
}

std::vector<Terms> Agree(const Exchange& exchange, const Terms& terms, const Facts& facts) {
  const std::vector<Answer> answers = Exchanged(exchange, {terms, false, {}, Fitting(facts)});
  std::string refused;
  for (std::size_t rank = 0; rank < answers.size(); ++rank) {
    if (!answers[rank].refused) continue;
    refused += c10::str(refused.empty() ? "" : "; ", "rank ", rank, ": ", answers[rank].reason);
  }
  if (!refused.empty()) throw Error(exchange.function() + ": refused on other ranks: " + refused);
  if (std::ranges::any_of(answers, [&](const Answer& answer) { return answer.facts != answers[0].facts; })) {
    Refuse(exchange.function(), ": the ranks disagree: ", Differences(answers));
  }
  std::vector<Terms> agreed;
  agreed.reserve(answers.size());
  for (const Answer& answer : answers) agreed.push_back(answer.terms);
  return agreed;
}

}  // namespace

void TellRefusal(const Exchange& exchange, const std::string& reason) {
  Exchanged(exchange, {{}, true, Start(reason, kMostReason), {}});
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
