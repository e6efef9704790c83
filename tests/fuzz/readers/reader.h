// Readers of bytes that others wrote: what they are fuzzed and tested by.
#ifndef HEED_TESTS_FUZZ_READERS_READER_H_
#define HEED_TESTS_FUZZ_READERS_READER_H_

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace heed::fuzz {

struct Reader {
  const char* name;
  const char* what;  // it reads
  // Reads bytes. It may throw Error, which refuses them; any other exception is a fault, as is what Require finds.
  void (*read)(std::string_view bytes);
  // Bytes that the reader takes, to begin with.
  std::vector<std::string> (*seeds)();
};

extern const Reader kSafetensors, kIndex, kPrograms, kSeries, kTexts, kCounts, kAttention;
extern const Reader kCsv, kNpy;  // of the laboratory

// Ends the process with the sentence, unless it holds.
void Require(bool holds, const std::string& sentence);

// Whether it throws Error.
bool Refuses(const std::function<void()>& read);

// A path below the folder of this process, where readers of paths find their bytes; WriteAt makes the file.
std::string At(const std::string& name);
std::string WriteAt(const std::string& name, std::string_view bytes);

// An input that stands for two files: the first up to a zero byte, which no text file holds, and the rest.
std::pair<std::string_view, std::string_view> TwoFiles(std::string_view bytes);

// A safetensors file of float32 tensors, which hold 0.25, -0.5, 0.75, ..
std::string TensorFile(const std::map<std::string, std::vector<int64_t>>& shapes);
// A safetensors file with this header.
std::string TensorFile(const std::string& header, std::string_view data);

// Numbers out of the bytes of an input, zeros behind its end.
class Draw {
 public:
  explicit Draw(std::string_view bytes) : bytes_(bytes) {}

  int64_t left() const { return static_cast<int64_t>(bytes_.size()); }  // bytes
  // 0 .. most, at most 255.
  int64_t UpTo(int64_t most);
  // Any number of this type, small ones and the ends of its range more often than by chance.
  int64_t Integer();
  double Real();

 private:
  std::string_view Take(std::size_t count);
  std::string_view bytes_;
};

}  // namespace heed::fuzz

#endif  // HEED_TESTS_FUZZ_READERS_READER_H_
