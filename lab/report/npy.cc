#include "lab/report/npy.h"

#include <bit>
#include <cstddef>

namespace heed::lab {

std::string NpyHeader(const std::string& type, const std::vector<int64_t>& shape) {
  constexpr char kMagic[] = "\x93NUMPY\x01";           // and, as the terminating zero, minor version 0
  constexpr std::size_t kPrefix = sizeof(kMagic) + 2;  // the header's length follows as two bytes, low first
  constexpr std::size_t kAlignment = 64;               // of the first value
  const char order = std::endian::native == std::endian::little ? '<' : '>';
  std::string header = std::string("{'descr': '") + order + type + "', 'fortran_order': False, 'shape': (";
  // As Python writes a tuple: one of one item has a comma.
  for (std::size_t i = 0; i < shape.size(); ++i) header += (i == 0 ? "" : ", ") + std::to_string(shape[i]);
  header += shape.size() == 1 ? ",), }" : "), }";
  const std::size_t unpadded = kPrefix + header.size() + 1;
  header.append((kAlignment - unpadded % kAlignment) % kAlignment, ' ').push_back('\n');

  std::string file(kMagic, sizeof(kMagic));
  file.push_back(static_cast<char>(header.size() & 0xff));
  file.push_back(static_cast<char>(header.size() >> 8));
  return file + header;
}

std::string FormatNpy(int64_t rows, int64_t columns, const std::vector<double>& values) {
  std::string file = NpyHeader("f8", {rows, columns});
  file.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(double));
  return file;
}

}  // namespace heed::lab
