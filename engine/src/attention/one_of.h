// One of several classes with a common base, chosen at run time and held in place: no memory is asked for.
#ifndef HEED_ATTENTION_ONE_OF_H_
#define HEED_ATTENTION_ONE_OF_H_

#include <utility>
#include <variant>

namespace heed::attention {

template <class Base, class... Classes>
class OneOf {
 public:
  OneOf() = default;
  OneOf(const OneOf&) = delete;
  OneOf& operator=(const OneOf&) = delete;

  // Makes an object of Class, which lives as long as this one. Once, and before it is used.
  template <class Class, class... Args>
  void Hold(Args&&... args) {
    chosen_ = &held_.template emplace<Class>(std::forward<Args>(args)...);
  }
  Base* operator->() const { return chosen_; }
  Base& operator*() const { return *chosen_; }

 private:
  std::variant<std::monostate, Classes...> held_;
  Base* chosen_ = nullptr;
};

}  // namespace heed::attention

#endif  // HEED_ATTENTION_ONE_OF_H_
