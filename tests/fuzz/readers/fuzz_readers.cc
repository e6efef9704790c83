// Fuzzes readers of bytes that others wrote, where it is built with clang (`./dev fuzz`), and tests them with what they take
// and with what they once failed on.
//
//   fuzz_readers                          reads all seeds and all kept inputs of tests/fuzz/crashes
//   fuzz_readers --list                   the readers
//   fuzz_readers --seeds READER FOLDER    writes the reader's seeds
//   fuzz_readers READER ARGUMENTS         files to read; with clang any arguments of libFuzzer
//
// A fault ends the process.
#include <sys/resource.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "heed/error.h"
#include "tests/fuzz/readers/reader.h"
#include "tests/scratch_folder.h"

#ifdef HEED_LIBFUZZER
extern "C" int LLVMFuzzerRunDriver(int* argc, char*** argv, int (*read)(const uint8_t* data, size_t size));
#endif

namespace heed::fuzz {
namespace {

constexpr const Reader* kReaders[] = {&kSafetensors, &kIndex, &kPrograms, &kSeries, &kTexts, &kCounts, &kAttention,
#ifdef HEED_FUZZ_LAB
                                      &kCsv,         &kNpy
#endif
};

#ifdef HEED_LIBFUZZER
const Reader* at_hand = nullptr;  // libFuzzer knows no more than a function
#endif

// What the reader says of bytes that it refuses; empty: it takes them.
std::string Refusal(const Reader& reader, std::string_view bytes) {
  try {
    reader.read(bytes);
    return {};
  } catch (const Error& error) {
    Require(!std::string_view(error.what()).empty(), "an error says nothing");
    return error.what();
  }
}

std::string BytesOf(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  Require(file.good(), path.string() + " cannot be read");
  return {std::istreambuf_iterator<char>(file), {}};
}

// A length that no file has must not become memory. Sanitizers map more than they use, and libFuzzer has a limit of its own.
void LimitMemory() {
#if !defined(HEED_LIBFUZZER) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  constexpr rlim_t kMost = rlim_t{2} << 30;
  const rlimit limit{kMost, kMost};
  setrlimit(RLIMIT_DATA, &limit);
#endif
}

int TestAll() {
  int64_t seeds = 0, kept = 0;
  for (const Reader* reader : kReaders) {
    for (const std::string& seed : reader->seeds()) {
      const std::string refusal = Refusal(*reader, seed);
      Require(refusal.empty(), std::string(reader->name) + " refuses a seed: " + refusal);
      ++seeds;
    }
    const std::filesystem::path folder = std::filesystem::path(HEED_SOURCE_DIR "/tests/fuzz/crashes") / reader->name;
    if (!std::filesystem::is_directory(folder)) continue;
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      std::cout << "fuzz: " << reader->name << ", " << entry.path().filename().string() << "\n" << std::flush;
      Refusal(*reader, BytesOf(entry.path()));
      ++kept;
    }
  }
  std::cout << "fuzz: " << seeds << " seeds and " << kept << " kept inputs read\n";
  return 0;
}

int Fuzz(const Reader& reader, std::vector<char*> arguments) {
#ifdef HEED_LIBFUZZER
  at_hand = &reader;
  auto count = static_cast<int>(arguments.size());
  char** first = arguments.data();
  return LLVMFuzzerRunDriver(&count, &first, [](const uint8_t* data, size_t size) {
    Refusal(*at_hand, {reinterpret_cast<const char*>(data), size});
    return 0;
  });
#else
  for (std::size_t i = 1; i < arguments.size(); ++i)
    std::cout << arguments[i] << ": " << Refusal(reader, BytesOf(arguments[i])) << "\n";
  return 0;
#endif
}

int List() {
  for (const Reader* reader : kReaders) {
    const std::string name = reader->name;
    std::cout << name << std::string(14 - name.size(), ' ') << reader->what << "\n";
  }
  return 0;
}

int WriteSeeds(const Reader& reader, const std::filesystem::path& folder) {
  int64_t count = 0;
  for (const std::string& seed : reader.seeds()) WriteBytes(folder / ("seed-" + std::to_string(count++)), seed);
  return 0;
}

int Run(std::vector<char*> arguments) {
  const std::vector<std::string> words(arguments.begin() + 1, arguments.end());
  if (words.empty()) return TestAll();
  if (words[0] == "--list") return List();
  const bool writes = words[0] == "--seeds" && words.size() == 3;
  const std::string& name = words[writes ? 1 : 0];
  for (const Reader* reader : kReaders) {
    if (name != reader->name) continue;
    if (writes) return WriteSeeds(*reader, words[2]);
    arguments.erase(arguments.begin() + 1);
    return Fuzz(*reader, arguments);
  }
  std::cerr << "fuzz_readers: " << name << " is no reader; expected one of --list\n";
  return 2;
}

}  // namespace
}  // namespace heed::fuzz

int main(int argc, char** argv) {
  heed::fuzz::LimitMemory();
  return heed::fuzz::Run({argv, argv + argc});
}
