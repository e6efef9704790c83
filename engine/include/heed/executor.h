// Runs the engine's work on its own thread pool, the caller's threads, or the calling thread alone.
#ifndef HEED_EXECUTOR_H_
#define HEED_EXECUTOR_H_

#include <cstdint>
#include <memory>
#include <type_traits>
#include <utility>

namespace heed {

// A non-owning reference to a callable. The callable must outlive the reference.
template <class Signature>
class FunctionRef;

template <class R, class... Args>
class FunctionRef<R(Args...)> {
 public:
  template <class F>
    requires(!std::is_same_v<std::remove_cvref_t<F>, FunctionRef>)
  FunctionRef(F&& f)
      : object_(const_cast<void*>(static_cast<const void*>(std::addressof(f)))), call_([](void* object, Args... args) -> R {
          return (*static_cast<std::remove_reference_t<F>*>(object))(std::forward<Args>(args)...);
        }) {}
  R operator()(Args... args) const { return call_(object_, std::forward<Args>(args)...); }

 private:
  void* object_;
  R (*call_)(void*, Args...);
};

// Runs independent tasks, on any threads and in any order. Results do not depend on the executor: the shape of the problem
// alone divides the work, and sums have a fixed order. Results are also the same with an executor of your own that runs a task
// twice, late, never or under another number: those that run do all the work. Its exceptions reach the caller of the engine;
// outputs then hold unspecified numbers, and the call wrote nothing else.
class Executor {
 public:
  virtual ~Executor() = default;

  // Calls task(0) .. task(tasks - 1), each exactly once, and returns when all have returned. If tasks throw, it throws the
  // first exception after the others have ended. A call from inside a task runs serially.
  virtual void ParallelFor(int64_t tasks, FunctionRef<void(int64_t)> task) = 0;

  // The number of tasks that run at once. If it is below 1, calls throw InvalidArgument. The engine asks once a call and keeps
  // one scratch area for each.
  virtual int concurrency() const = 0;
};

// Runs all tasks on the calling thread.
class SerialExecutor final : public Executor {
 public:
  void ParallelFor(int64_t tasks, FunctionRef<void(int64_t)> task) override {
    for (int64_t i = 0; i < tasks; ++i) task(i);
  }
  int concurrency() const override { return 1; }
};

// A fixed set of threads, the calling one included. Several threads may call it at once, and the calls take turns. After fork()
// the child starts its threads anew. It never changes affinity, signal masks or floating-point modes.
class ThreadPool final : public Executor {
 public:
  // threads: in all; 0: AvailableThreads(). Throws InvalidArgument for fewer than 0.
  explicit ThreadPool(int threads = 0);
  ~ThreadPool() override;
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  void ParallelFor(int64_t tasks, FunctionRef<void(int64_t)> task) override;
  int concurrency() const override;

  // The pool of calls without an executor, made on first use.
  static ThreadPool& Default();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Threads this process may use at once: the smaller of its CPU affinity and its cgroup quota, >= 1.
int AvailableThreads();

}  // namespace heed

#endif  // HEED_EXECUTOR_H_
