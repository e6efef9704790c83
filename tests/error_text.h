// What a refused call says.
#ifndef HEED_TESTS_ERROR_TEXT_H_
#define HEED_TESTS_ERROR_TEXT_H_

#include <string>

namespace heed {

// The text of the Exception that `call` throws, or nothing when it throws none; any other exception fails the test.
template <class Exception, class Call>
std::string WhatOf(const Call& call) {
  try {
    call();
  } catch (const Exception& error) {
    return error.what();
  }
  return {};
}

inline bool Holds(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace heed

#endif  // HEED_TESTS_ERROR_TEXT_H_
