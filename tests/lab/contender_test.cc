#include "lab/runs/contender.h"

#include <set>

#include <gtest/gtest.h>

namespace heed::lab {
namespace {

std::vector<std::string> Ids(const std::vector<Contender>& contenders) {
  std::vector<std::string> ids;
  ids.reserve(contenders.size());
  for (const Contender& contender : contenders) ids.push_back(contender.Id());
  return ids;
}

const std::vector<std::string> kEncoders = {
    "attention",      "convolution", "dilated",       "rnn",    "gru",       "lstm",   "gru-attention", "decomposable",
    "self-attentive", "lstmn",       "intra-decoder", "linear", "retention", "mamba2", "gated-delta"};
const std::vector<std::string> kPositions = {
    "none",         "sinusoidal", "learned", "rotary",      "alibi",           "relative",       "t5",   "shaw",    "kerple",
    "kerple_power", "sandwich",   "fire",    "temperature", "sinusoidal_bias", "transformer_xl", "xpos", "deberta", "cope"};

TEST(ContenderTest, AttentionComesWithEveryPositionAndTheOthersOnce) {
  EXPECT_EQ(Ids(Contenders({"gru", "attention", "rnn"}, {"alibi", "none"})),
            (std::vector<std::string>{"gru", "attention-alibi", "attention-none", "rnn"}));
  EXPECT_EQ(Ids(Contenders({"gru"}, {})), std::vector<std::string>{"gru"});
  EXPECT_TRUE(Contenders({"attention"}, {}).empty());
  for (const Contender& contender : Contenders({"gru", "gru-attention"}, {"alibi"})) EXPECT_EQ(contender.position, "none");
}

TEST(ContenderTest, NamesAndFamilies) {
  struct Names {
    Contender contender;
    const char *id, *label, *phrase, *family;
  };
  const Names all[] = {
      {{"attention", "none"}, "attention-none", "attention, no positions", "attention without positions", "attention"},
      {{"attention", "rotary"}, "attention-rotary", "attention, rotary", "attention with rotary positions", "attention"},
      {{"attention", "alibi"}, "attention-alibi", "attention, ALiBi", "attention with ALiBi", "attention"},
      {{"attention", "relative"},
       "attention-relative",
       "attention, relative bias",
       "attention with a relative bias",
       "attention"},
      {{"attention", "t5"}, "attention-t5", "attention, T5's bias", "attention with T5's bias", "attention"},
      {{"attention", "shaw"}, "attention-shaw", "attention, Shaw", "attention with Shaw's relative positions", "attention"},
      {{"attention", "kerple_power"},
       "attention-kerple_power",
       "attention, KERPLE's power",
       "attention with KERPLE's power",
       "attention"},
      {{"convolution", "none"}, "convolution", "convolution", "the convolution", "convolution"},
      {{"dilated", "none"}, "dilated", "dilated convolution", "the dilated convolution", "convolution"},
      {{"rnn", "none"}, "rnn", "RNN", "the RNN", "recurrence"},
      {{"gru", "none"}, "gru", "GRU", "the GRU", "recurrence"},
      {{"lstm", "none"}, "lstm", "LSTM", "the LSTM", "recurrence"},
      {{"gru-attention", "none"}, "gru-attention", "GRU with attention", "the GRU with attention", "recurrence with attention"},
      {{"decomposable", "none"}, "decomposable", "decomposable attention", "decomposable attention", "decomposable attention"},
      {{"self-attentive", "none"},
       "self-attentive",
       "self-attentive embedding",
       "the self-attentive embedding",
       "recurrence with attention"},
      {{"lstmn", "none"}, "lstmn", "LSTMN", "the LSTMN", "recurrence with attention"},
      {{"intra-decoder", "none"}, "intra-decoder", "intra-decoder", "the intra-decoder", "recurrence with attention"},
      {{"linear", "none"}, "linear", "linear attention", "linear attention", "linear time"},
      {{"retention", "none"}, "retention", "retention", "retention", "linear time"},
      {{"mamba2", "none"}, "mamba2", "Mamba-2", "Mamba-2", "linear time"},
      {{"gated-delta", "none"}, "gated-delta", "gated DeltaNet", "gated DeltaNet", "linear time"},
  };
  for (const Names& names : all) {
    EXPECT_EQ(names.contender.Id(), names.id);
    EXPECT_EQ(names.contender.Label(), names.label);
    EXPECT_EQ(names.contender.Phrase(), names.phrase);
    EXPECT_EQ(names.contender.Family(), names.family);
  }
}

// A file, a line of a figure and a row of a table belong to one contender.
TEST(ContenderTest, NoTwoShareAName) {
  const std::vector<Contender> contenders = Contenders(kEncoders, kPositions);
  ASSERT_EQ(contenders.size(), kEncoders.size() - 1 + kPositions.size());
  std::set<std::string> ids, labels, phrases, schemes;
  for (const Contender& contender : contenders) {
    ids.insert(contender.Id()), labels.insert(contender.Label()), phrases.insert(contender.Phrase());
  }
  for (const std::string& position : kPositions) schemes.insert(SchemeLabel(position));
  EXPECT_EQ(ids.size(), contenders.size());
  EXPECT_EQ(labels.size(), contenders.size());
  EXPECT_EQ(phrases.size(), contenders.size());
  EXPECT_EQ(schemes.size(), kPositions.size());
}

TEST(ContenderTest, DefaultsAreOneOfEachKind) {
  std::set<std::string> families;
  for (const Contender& contender : Contenders(DefaultEncoders(), {"none"})) families.insert(contender.Family());
  EXPECT_EQ(families, (std::set<std::string>{"attention", "convolution", "recurrence"}));
}

TEST(JoinTest, ReadsAsASentenceDoes) {
  EXPECT_EQ(Join({}), "");
  EXPECT_EQ(Join({"a"}), "a");
  EXPECT_EQ(Join({"a", "b"}), "a and b");
  EXPECT_EQ(Join({"a", "b", "c"}), "a, b and c");
}

TEST(SentenceTest, BeginsWithACapital) {
  EXPECT_EQ(Sentence("the GRU wins"), "The GRU wins");
  EXPECT_EQ(Sentence("ALiBi"), "ALiBi");
  EXPECT_EQ(Sentence("3 of 4"), "3 of 4");
  EXPECT_EQ(Sentence(""), "");
  EXPECT_EQ(Sentence("étude"), "étude");
}

}  // namespace
}  // namespace heed::lab
