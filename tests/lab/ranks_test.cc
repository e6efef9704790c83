// What ranks tell each other, and how they agree and fail.
#include "lab/training/ranks.h"

#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "lab/training/interrupt.h"
#include "tests/lab/thread_ranks.h"

namespace heed::lab {
namespace {

using Settings = std::map<std::string, std::string>;

template <class E>
std::string Thrown(const std::function<void()>& act) {
  try {
    act();
  } catch (const E& error) {
    return error.what();
  }
  return "nothing of that kind";
}

TEST(RanksTest, NumbersAndTextsReachEveryRank) {
  OnThreads(3, [](Ranks& ranks) {
    EXPECT_EQ(ranks.size(), 3);
    const double own = ranks.rank();
    EXPECT_EQ(ranks.Sum({own, 1.0}, "numbers"), (std::vector<double>{3.0, 3.0}));
    EXPECT_EQ(ranks.Gather(std::string(ranks.rank(), 'x'), "texts"), (std::vector<std::string>{"", "x", "xx"}));
    EXPECT_EQ(ranks.FromFirst(ranks.first() ? "four" : "", "a text"), "four");
    const at::Tensor columns = at::full({2, 3}, own + 5, at::kDouble).t();  // not contiguous
    TakeFromFirst(ranks, columns, "a tensor");
    EXPECT_TRUE(columns.eq(5).all().item<bool>());
  });
}

TEST(RanksTest, WhatFailsOnTheFirstFailsAlikeOnAll) {
  std::atomic<int> calls = 0;
  OnThreads(3, [&](Ranks& ranks) {
    const auto fails = [&]<class E>(const E& error) {
      const auto act = [&] {
        ++calls;
        throw E(error);
      };
      EXPECT_EQ(Thrown<E>([&] { ranks.OnFirst(act, "rank 0"); }), error.what()) << ranks.rank();
    };
    fails(FileError("a file: full"));
    fails(Divergence("infinite"));
    fails(InvalidArgument("out: there already"));
    ranks.OnFirst([&] { ++calls; }, "rank 0");
  });
  EXPECT_EQ(calls, 4);
}

TEST(RanksTest, EveryRankNamesEveryDifference) {
  OnThreads(4, [](Ranks& ranks) {
    ranks.Agree([] { return Settings{{"seed", "1"}}; });
    const bool other = ranks.rank() == 1;
    const auto prepare = [&] {
      return Settings{{"dropout", other ? "0.2" : "0.1"}, {"seed", "1"}, {"version", other ? "9" : "8"}};
    };
    EXPECT_EQ(
        Thrown<InvalidArgument>([&] { ranks.Agree(prepare); }),
        "the ranks disagree: dropout: ranks 0, 2, 3 have 0.1; rank 1 has 0.2; version: ranks 0, 2, 3 have 8; rank 1 has 9");
    const auto unequal = [&] { return other ? Settings{{"colour", "red"}} : Settings{}; };
    EXPECT_EQ(Thrown<InvalidArgument>([&] { ranks.Agree(unequal); }),
              "the ranks disagree: colour: ranks 0, 2, 3 have nothing; rank 1 has red");
  });
}

TEST(RanksTest, WhoRefusesTellsTheOthers) {
  OnThreads(2, [](Ranks& ranks) {
    const auto prepare = [&]() -> Settings {
      if (ranks.rank() == 1) throw FileError("text.txt: it is not there");
      return {};
    };
    if (ranks.rank() == 1) {
      EXPECT_EQ(Thrown<FileError>([&] { ranks.Agree(prepare); }), "text.txt: it is not there");
    } else {
      EXPECT_EQ(Thrown<Error>([&] { ranks.Agree(prepare); }), "refused on other ranks: rank 1: text.txt: it is not there");
    }
    EXPECT_EQ(ranks.Sum({1.0}, "numbers").front(), 2.0);  // they can go on
  });
}

TEST(RanksTest, ALateRankIsAnErrorThatNamesWhatWasWaitedFor) {
  const auto late = [](Ranks& ranks) {
    if (ranks.rank() == 1) {
      std::this_thread::sleep_for(std::chrono::milliseconds(2500));
      return;
    }
    const auto start = std::chrono::steady_clock::now();
    const std::string message = Thrown<RanksError>([&] { ranks.Sum({1.0}, "the losses of step 3"); });
    EXPECT_TRUE(message.starts_with("rank 0 of 2 waited for the losses of step 3: ")) << message;
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::milliseconds(2000));
  };
  OnThreads(2, late, std::chrono::milliseconds(500));
}

// Others learn of the loss when this rank's connections close, so that its end must not wait for a sum that nobody will join.
TEST(RanksTest, AfterALossARankEndsBeforeTheTimeOut) {
  constexpr std::chrono::milliseconds kTimeOut(4000);
  const auto store = c10::make_intrusive<c10d::HashStore>();
  const auto join = [&](int rank) {
    return std::make_unique<Ranks>(RankGroup{nn::MakeProcessGroup(store, rank, 2, kTimeOut), kTimeOut});
  };
  std::promise<void> ended;
  std::thread other([&] {
    const auto ranks = join(1);
    ended.get_future().wait();
  });
  auto ranks = join(0);
  std::vector<at::Tensor> tensors = {at::zeros({1})};
  const auto work = ranks->group().group->allreduce(tensors);
  EXPECT_THROW(ranks->Await("a rank", [] { TORCH_CHECK_WITH(DistError, false, "it is lost"); }), RanksError);
  const auto start = std::chrono::steady_clock::now();
  ranks.reset();
  EXPECT_LT(std::chrono::steady_clock::now() - start, kTimeOut / 2);
  ended.set_value();
  other.join();
}

TEST(RanksTest, ATimeOutThatIsNoneIsRefused) {
  for (const double seconds : {0.0, -1.0, 1e300}) EXPECT_THROW(Ranks::Join(seconds), InvalidArgument);
}

}  // namespace
}  // namespace heed::lab
