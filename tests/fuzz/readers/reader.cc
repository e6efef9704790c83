#include "tests/fuzz/readers/reader.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <limits>

#include "heed/error.h"
#include "tests/scratch_folder.h"

namespace heed::fuzz {

void Require(bool holds, const std::string& sentence) {
  if (holds) return;
  std::cerr << "fuzz: " << sentence << "\n";
  std::abort();
}

bool Refuses(const std::function<void()>& read) {
  try {
    read();
    return false;
  } catch (const Error&) {
    return true;
  }
}

std::string At(const std::string& name) {
  static const ScratchFolder folder;
  return (folder.path() / name).string();
}

std::string WriteAt(const std::string& name, std::string_view bytes) {
  const std::string path = At(name);
  WriteBytes(path, std::string(bytes));
  return path;
}

std::pair<std::string_view, std::string_view> TwoFiles(std::string_view bytes) {
  const std::size_t end = std::min(bytes.find('\0'), bytes.size());
  return {bytes.substr(0, end), bytes.substr(std::min(end + 1, bytes.size()))};
}

std::string TensorFile(const std::string& header, std::string_view data) {
  std::string file(8, '\0');
  for (std::size_t i = 0; i < 8; ++i) file[i] = static_cast<char>(header.size() >> (8 * i) & 0xFF);
  return file.append(header).append(data);
}

std::string TensorFile(const std::map<std::string, std::vector<int64_t>>& shapes) {
  std::string header, data;
  for (const auto& [name, shape] : shapes) {
    const std::size_t begin = data.size();
    int64_t count = 1;
    std::string extents;
    for (const int64_t extent : shape) {
      count *= extent;
      extents.append(extents.empty() ? "" : ",").append(std::to_string(extent));
    }
    for (int64_t i = 1; i <= count; ++i) {
      const float number = 0.25F * static_cast<float>(i % 2 == 1 ? i % 5 : -(i % 5));
      char bytes[sizeof number];
      std::memcpy(bytes, &number, sizeof number);
      data.append(bytes, sizeof number);
    }
    header.append(header.empty() ? "{\"" : ",\"").append(name).append(R"(":{"dtype":"F32","shape":[)").append(extents);
    header.append(R"(],"data_offsets":[)").append(std::to_string(begin)).append(",").append(std::to_string(data.size()));
    header.append("]}");
  }
  return TensorFile(header.empty() ? "{}" : header + "}", data);
}

std::string_view Draw::Take(std::size_t count) {
  const std::string_view taken = bytes_.substr(0, count);
  bytes_.remove_prefix(taken.size());
  return taken;
}

int64_t Draw::UpTo(int64_t most) {
  const std::string_view byte = Take(1);
  return byte.empty() ? 0 : static_cast<unsigned char>(byte[0]) % (most + 1);
}

int64_t Draw::Integer() {
  constexpr int64_t kEnds[] = {std::numeric_limits<int64_t>::max(), std::numeric_limits<int64_t>::min(), int64_t{1} << 32,
                               int64_t{1} << 53, -1};
  const int64_t kind = UpTo(255);
  if (kind < 240) return kind % 12 - 2;
  if (kind < 250) return kEnds[kind % 5];
  int64_t number = 0;
  const std::string_view bytes = Take(sizeof number);
  if (!bytes.empty()) std::memcpy(&number, bytes.data(), bytes.size());
  return number;
}

double Draw::Real() {
  constexpr double kEnds[] = {0.0,
                              -0.0,
                              1e300,
                              1e-310,
                              std::numeric_limits<double>::infinity(),
                              -std::numeric_limits<double>::infinity(),
                              std::numeric_limits<double>::quiet_NaN()};
  const int64_t kind = UpTo(255);
  if (kind < 200) return static_cast<double>(kind - 100) / 16;
  return kEnds[kind % 7];
}

}  // namespace heed::fuzz
