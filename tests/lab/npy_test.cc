#include "lab/report/figure.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

namespace heed::lab {
namespace {

TEST(Npy, HasTheHeaderOfVersionOneAndTheValuesInRowOrder) {
  const std::vector<double> values = {1, -2.5, 3e300, 4, 5, 6};
  const std::string file = FormatNpy(2, 3, values);
  ASSERT_EQ(file.substr(0, 8), std::string("\x93NUMPY\x01\x00", 8));
  const std::size_t header = static_cast<unsigned char>(file[8]) + 256u * static_cast<unsigned char>(file[9]);
  const std::size_t data = 10 + header;
  EXPECT_EQ(data % 64, 0u) << "values start at a multiple of 64 bytes";
  EXPECT_EQ(file[data - 1], '\n');
  EXPECT_EQ(file.substr(10, file.find('}') - 9), "{'descr': '<f8', 'fortran_order': False, 'shape': (2, 3), }");
  ASSERT_EQ(file.size() - data, values.size() * sizeof(double));
  EXPECT_EQ(std::memcmp(file.data() + data, values.data(), values.size() * sizeof(double)), 0);
}

TEST(Npy, AlignsWhateverTheShapeTakes) {
  for (const int64_t columns : {1, 10, 1000, 1000000}) {
    const std::string file = FormatNpy(0, columns, {});
    EXPECT_EQ(file.size() % 64, 0u) << columns;
    EXPECT_EQ(file.back(), '\n');
  }
}

}  // namespace
}  // namespace heed::lab
