// The NPY format, version 1.0 (NumPy Enhancement Proposal 1).
#ifndef HEED_LAB_REPORT_NPY_H_
#define HEED_LAB_REPORT_NPY_H_

#include <cstdint>
#include <string>
#include <vector>

namespace heed::lab {

// What precedes the values, in C order, of a .npy file. type: "f4" or "f8", in this machine's byte order.
std::string NpyHeader(const std::string& type, const std::vector<int64_t>& shape);

// The bytes of a .npy file: float64, C order, shape (rows, columns). `values` has rows * columns entries.
std::string FormatNpy(int64_t rows, int64_t columns, const std::vector<double>& values);

}  // namespace heed::lab

#endif  // HEED_LAB_REPORT_NPY_H_
