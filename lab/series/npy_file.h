// Arrays from NPY files, which are hostile until checked.
#ifndef HEED_LAB_SERIES_NPY_FILE_H_
#define HEED_LAB_SERIES_NPY_FILE_H_

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "heed/input_file.h"

namespace heed::lab {

inline constexpr double kLargestWhole = 9007199254740992.0;  // 2^53: beyond it a double skips whole numbers

struct NpyArray {
  std::string name;
  std::vector<int64_t> shape;
  bool whole = false;          // integers or booleans in the file
  std::vector<double> values;  // in C order
};

// Versions 1 to 3 of the format (NumPy Enhancement Proposal 1); real numbers, integers and booleans of this machine's byte
// order, in C order. Throws FileError that names the file and what is wrong: another type (pickled objects are never read),
// Fortran order, a header that is malformed or longer than 64 KiB, another size than the header says, values that are infinite,
// or NaN unless the array may lack values, whole numbers beyond 2^53.
NpyArray ReadNpy(const std::filesystem::path& path, bool may_lack = false);
// The same from bytes.
NpyArray ParseNpy(const std::string& name, const std::string& bytes, bool may_lack = false);

// The same array some rows at a time.
class NpyFile {
 public:
  explicit NpyFile(const std::filesystem::path& path, bool may_lack = false);

  const std::string& name() const { return name_; }
  const std::vector<int64_t>& shape() const { return shape_; }
  // Those from `first` up to `end`, without it, along the first extent, in C order.
  std::vector<double> Rows(int64_t first, int64_t end) const;

 private:
  std::string name_;
  InputFile file_;
  std::string type_;
  std::vector<int64_t> shape_;
  int64_t begin_ = 0;  // of the values
  bool may_lack_;
};

}  // namespace heed::lab

#endif  // HEED_LAB_SERIES_NPY_FILE_H_
