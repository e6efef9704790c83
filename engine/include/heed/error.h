// The exceptions that heed throws. InvalidArgument comes before anything is written.
#ifndef HEED_ERROR_H_
#define HEED_ERROR_H_

#include <exception>
#include <string>
#include <utility>

namespace heed {

// what() names the argument at fault and says what was expected of it.
class Error : public std::exception {
 public:
  explicit Error(std::string message) : message_(std::move(message)) {}
  const char* what() const noexcept override { return message_.c_str(); }

 private:
  std::string message_;
};

// An argument is outside the values for which the operation is defined.
class InvalidArgument : public Error {
 public:
  using Error::Error;
};

// A file cannot be read, is malformed or cannot be written.
class FileError : public Error {
 public:
  using Error::Error;
};

}  // namespace heed

#endif  // HEED_ERROR_H_
