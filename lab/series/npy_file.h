// Arrays from NPY files, which are hostile until checked.
#ifndef HEED_LAB_SERIES_NPY_FILE_H_
#define HEED_LAB_SERIES_NPY_FILE_H_

#include <cstdint>
#include <filesystem>
#include <limits>
#include <string>
#include <vector>

#include "heed/input_file.h"

namespace heed::lab {

inline constexpr double kLargestWhole = 9007199254740992.0;  // 2^53: beyond it a double skips whole numbers

// Versions 1 to 3 of the format (NumPy Enhancement Proposal 1); real numbers, integers and booleans of this machine's byte
// order, in C order. All throw FileError that names the file and what is wrong.
class NpyFile {
 public:
  // Refuses another type (pickled objects are never read), Fortran order, a header that is malformed or longer than 64 KiB,
  // another size than the header says, and a file of more than `most_bytes`.
  explicit NpyFile(const std::filesystem::path& path, bool may_lack = false,
                   int64_t most_bytes = std::numeric_limits<int64_t>::max());

  const std::string& name() const { return name_; }
  const std::vector<int64_t>& shape() const { return shape_; }
  bool whole() const;  // integers or booleans in the file

  // All values, or those from `first` up to `end`, without it, along the first extent, in C order. Refuses values that are
  // infinite, or NaN unless the array may lack values, and whole numbers beyond 2^53.
  std::vector<double> Values() const { return Read(0, count_); }
  std::vector<double> Rows(int64_t first, int64_t end) const;

 private:
  std::vector<double> Read(int64_t first, int64_t count) const;

  std::string name_;
  InputFile file_;
  std::string type_;
  std::vector<int64_t> shape_;
  int64_t begin_ = 0, count_ = 0;  // of the values: their first byte, and how many they are
  bool may_lack_;
};

}  // namespace heed::lab

#endif  // HEED_LAB_SERIES_NPY_FILE_H_
