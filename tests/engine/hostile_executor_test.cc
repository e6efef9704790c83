// Executors that break their promises: the engine computes the same bits, or throws, and never writes outside its memory (the
// address sanitizer and the guard of the workspace's size watch that).
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <limits>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "heed/attention.h"
#include "heed/dropout.h"
#include "heed/rotary.h"
#include "problem.h"

namespace heed {
namespace {

using TaskRef = FunctionRef<void(int64_t)>;

// What an executor does with tasks; `say` is how many it claims to run at once, by the number of times that it was asked.
class Unruly : public Executor {
 public:
  using Act = std::function<void(int64_t, TaskRef)>;
  explicit Unruly(
      Act act, std::function<int(int)> say = [](int) { return 3; })
      : act_(std::move(act)), say_(std::move(say)) {}
  void ParallelFor(int64_t tasks, TaskRef task) override { act_(tasks, task); }
  int concurrency() const override { return say_(asked_++); }

 private:
  Act act_;
  std::function<int(int)> say_;
  mutable int asked_ = 0;
};

void InOrder(int64_t tasks, TaskRef task) {
  for (int64_t i = 0; i < tasks; ++i) task(i);
}

// Threads that outlive the call that started them.
class Stragglers {
 public:
  ~Stragglers() { Join(); }
  void Start(int64_t i, TaskRef task, int milliseconds) {
    threads_.emplace_back([=] {
      std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
      task(i);
    });
  }
  void Join() {
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
  }

 private:
  std::vector<std::thread> threads_;
};

struct Misrule {
  std::string name;
  std::shared_ptr<Executor> executor;
  bool throws = false;
};

std::vector<Misrule> Misrules() {
  const auto make = [](const Unruly::Act& act) { return std::make_shared<Unruly>(act); };
  const auto count = [](std::function<int(int)> say) {
    // A caller that trusted the first answer gets as many calls as the last would allow.
    return std::make_shared<Unruly>([](int64_t tasks, TaskRef task) { InOrder(tasks + 8, task); }, std::move(say));
  };
  auto late = std::make_shared<std::vector<TaskRef>>();
  auto stragglers = std::make_shared<Stragglers>();
  return {
      {"never", make([](int64_t, TaskRef) {})},
      {"one of them only", make([](int64_t, TaskRef task) { task(1); })},
      {"each twice", make([](int64_t tasks, TaskRef task) { InOrder(tasks, task), InOrder(tasks, task); })},
      {"backwards", make([](int64_t tasks, TaskRef task) {
         while (tasks-- > 0) task(tasks);
       })},
      {"out of range", make([](int64_t tasks, TaskRef task) {
         for (int64_t i :
              {int64_t{-1}, tasks, tasks + 1000, std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max()})
           task(i);
       })},
      {"on many threads, each twice", make([](int64_t tasks, TaskRef task) {
         Stragglers threads;
         for (int64_t i = 0; i < 2 * tasks + 5; ++i) threads.Start(i % tasks, task, 0);
       })},
      {"after it returned", make([stragglers](int64_t tasks, TaskRef task) {
         for (int64_t i = 0; i < tasks; ++i) stragglers->Start(i, task, static_cast<int>(i));
       })},
      {"in a later call", make([late](int64_t tasks, TaskRef task) {
         for (const TaskRef& old : *late) InOrder(tasks, old);
         late->push_back(task);
       })},
      {"grows", count([](int asked) { return 2 + 3 * asked; })},
      {"shrinks", count([](int asked) { return asked == 0 ? 6 : 1; })},
      {"throws at once", make([](int64_t, TaskRef) { throw std::runtime_error("unruly"); }), true},
      {"throws after half", make([](int64_t tasks, TaskRef task) {
         InOrder(tasks / 2, task);
         throw std::runtime_error("unruly");
       }),
       true},
      {"throws while others run", make([stragglers](int64_t tasks, TaskRef task) {
         for (int64_t i = 0; i < tasks; ++i) stragglers->Start(i, task, 0);
         throw std::runtime_error("unruly");
       }),
       true},
      {"claims 0", std::make_shared<Unruly>(&InOrder, [](int) { return 0; }), true},
      {"claims less than 0", std::make_shared<Unruly>(&InOrder, [](int) { return std::numeric_limits<int>::min(); }), true},
  };
}

using Numbers = std::vector<float>;

// All that an engine computes with executors: each call returns its results.
std::vector<std::function<Numbers(Executor&)>> Calls() {
  const auto problem = [](const Shape& shape, bool backward) {
    return [=](Executor& executor) {
      Problem<float> p(shape);
      Attention attention;
      attention.causal = Causal::kBottomRight;
      p.Forward(attention, executor);
      if (backward) p.Backward(attention, executor);
      Numbers all = p.out;
      for (const Numbers* more : {&p.lse, &p.d_q, &p.d_k, &p.d_v})
        if (backward || more == &p.lse) all.insert(all.end(), more->begin(), more->end());
      return all;
    };
  };
  const auto weights = [](Executor& executor) {
    Problem<float> p({1, 2, 2, 200, 200, 32, 32});
    SerialExecutor serial;
    p.Forward({}, serial);
    const std::vector<int64_t> heads{0, 1}, rows{3, 77, 150};
    Numbers all(2 * 3 * 200);
    Weights<float>({}, p.Queries(p.q), p.Keys(p.k), p.Lse(), View<const int64_t, 1>::Contiguous(heads.data(), {2}),
                   View<const int64_t, 1>::Contiguous(rows.data(), {3}), View<float, 4>::Contiguous(all.data(), {1, 2, 3, 200}),
                   p.workspace, executor);
    return all;
  };
  const auto dropout = [](Executor& executor) {
    Numbers x(200000, 1.0F), y(x.size());
    DropElements({0.4, 7, 0}, x.data(), y.data(), static_cast<int64_t>(x.size()), executor);
    return y;
  };
  const auto rotary = [](Executor& executor) {
    Problem<float> p({2, 4, 4, 300, 1, 64, 1});
    const Numbers cos(300 * 32, 0.6F), sin(300 * 32, 0.8F);
    Numbers out(p.q.size());
    ApplyRotary({}, p.Queries(p.q), View<const float, 3>::Contiguous(cos.data(), {1, 300, 32}),
                View<const float, 3>::Contiguous(sin.data(), {1, 300, 32}), p.Queries(out), executor);
    return out;
  };
  return {problem({2, 4, 2, 130, 130, 32, 32}, true),
          problem({1, 2, 2, 80, 1100, 32, 32}, true),
          problem({2, 4, 2, 2, 3000, 32, 32}, false),
          weights,
          dropout,
          rotary};
}

TEST(UnrulyExecutors, ChangeNothingOrThrow) {
  SerialExecutor serial;
  const auto calls = Calls();
  std::vector<Numbers> expected;
  expected.reserve(calls.size());
  for (const auto& call : calls) expected.push_back(call(serial));
  for (const Misrule& c : Misrules())
    for (std::size_t x = 0; x < calls.size(); ++x) {
      SCOPED_TRACE(c.name + ", call " + std::to_string(x));
      if (c.throws) {
        EXPECT_ANY_THROW(calls[x](*c.executor));
      } else {
        EXPECT_EQ(calls[x](*c.executor), expected[x]);
      }
    }
}

TEST(UnrulyExecutors, AreRefusedByNameWithoutConcurrency) {
  Unruly none(&InOrder, [](int) { return 0; });
  Problem<float> p({1, 1, 1, 2, 2, 4, 4});
  try {
    p.Forward({}, none);
    ADD_FAILURE() << "accepted";
  } catch (const InvalidArgument& error) {
    EXPECT_NE(std::string(error.what()).find("executor"), std::string::npos) << error.what();
  }
}

TEST(UnrulyExecutors, AreAskedForTheirConcurrencyOnceACall) {
  int asked = 0;
  Unruly counting(&InOrder, [&](int) { return ++asked, 2; });
  Problem<float> p({1, 2, 2, 200, 200, 32, 32});
  p.Forward({}, counting);
  EXPECT_EQ(asked, 1);
  p.Backward({}, counting);
  EXPECT_EQ(asked, 2);
}

}  // namespace
}  // namespace heed
