// Files as the format allows them come back bit for bit; every other file is refused before a tensor exists.
#include "heed/nn/safetensors.h"

#include <csignal>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <sstream>
#include <string>
#include <vector>

#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <ATen/ATen.h>
#include <c10/core/CPUAllocator.h>
#include <gtest/gtest.h>

#include "heed/error.h"

namespace heed::nn {
namespace {

namespace fs = std::filesystem;

// Counts what tensors allocate while it is in place.
class AllocationCounter final : public c10::Allocator {
 public:
  AllocationCounter() : inner_(c10::GetCPUAllocator()) { c10::SetCPUAllocator(this, kPriority); }
  ~AllocationCounter() override { c10::SetCPUAllocator(inner_, kPriority); }
  c10::DataPtr allocate(size_t n) override {
    ++count_;
    return inner_->allocate(n);
  }
  c10::DeleterFnPtr raw_deleter() const override { return inner_->raw_deleter(); }
  void copy_data(void* to, const void* from, std::size_t count) const override { std::memcpy(to, from, count); }
  int count() const { return count_; }

 private:
  static constexpr uint8_t kPriority = 100;
  c10::Allocator* inner_;
  int count_ = 0;
};

class SafetensorsTest : public testing::Test {
 protected:
  void SetUp() override {
    const testing::TestInfo* test = testing::UnitTest::GetInstance()->current_test_info();
    std::string name = std::string(test->test_suite_name()) + "." + test->name();
    for (char& c : name) c = c == '/' ? '_' : c;
    folder_ = fs::path(testing::TempDir()) / ("heed-" + name + "-" + std::to_string(::getpid()));
    fs::remove_all(folder_);
    fs::create_directories(folder_);
    path_ = (folder_ / "case.safetensors").string();
  }
  void TearDown() override { fs::remove_all(folder_); }

  void WriteBytes(const std::string& bytes) const { std::ofstream(path_, std::ios::binary) << bytes; }
  std::string ReadBytes() const {
    std::ostringstream bytes;
    bytes << std::ifstream(path_, std::ios::binary).rdbuf();
    return bytes.str();
  }
  int FilesInFolder() const {
    return static_cast<int>(std::distance(fs::directory_iterator(folder_), fs::directory_iterator()));
  }

  fs::path folder_;
  std::string path_;
};

// length (8 bytes, little-endian), header, data.
std::string FileOf(const std::string& header, const std::string& data, uint64_t length) {
  return std::string(reinterpret_cast<const char*>(&length), sizeof(length)) + header + data;
}
std::string FileOf(const std::string& header, const std::string& data = "") { return FileOf(header, data, header.size()); }

// A header with one tensor "w" of the given dtype, shape and offsets.
std::string Entry(const std::string& dtype, const std::string& shape, const std::string& offsets) {
  return R"({"w":{"dtype":")" + dtype + R"(","shape":)" + shape + R"(,"data_offsets":)" + offsets + "}}";
}

struct Malformed {
  const char* name;
  std::string bytes;
  const char* message;  // a part of what() that names the fault
};

void PrintTo(const Malformed& malformed, std::ostream* out) { *out << malformed.name; }

std::string Repeat(const std::string& text, int count) {
  std::string all;
  for (int i = 0; i < count; ++i) all += text;
  return all;
}

// count tensors of no elements: 100,000 of them would fit into a header of the default limit.
std::string ManyTinyTensors(int count) {
  std::string header = "{";
  for (int i = 0; i < count; ++i) {
    if (i > 0) header += ',';
    header += '"' + std::to_string(i) + R"(":{"dtype":"U8","shape":[0],"data_offsets":[0,0]})";
  }
  return header + "}";
}

std::vector<Malformed> MalformedFiles() {
  const std::string four(4, '\1'), eight(8, '\1');
  const std::string w = R"("w":{"dtype":"U8","shape":[4],"data_offsets":[0,4]})";
  return {
      {"Empty", "", "too short"},
      {"SevenBytes", std::string(7, '\0'), "too short"},
      {"LengthZero", FileOf(""), "start with '{'"},
      {"LengthBeyondFile", FileOf("{}", "", 3), "the header claims 3 bytes"},
      {"ZipOfTorch", std::string("PK\x03\x04\0\0\x08\x08\0\0", 10), "one of torch.save"},
      {"Pickle", std::string("\x80\x02}q\0X\x04\0\0\0", 10), "one of torch.save"},
      {"LengthHuge", FileOf("{}", "", uint64_t{1} << 62), "more than the limit"},
      {"LengthAllOnes", FileOf("{}", "", std::numeric_limits<uint64_t>::max()), "claims 18446744073709551615 bytes"},
      {"LengthOverLimit", FileOf("{}" + std::string((int64_t{16} << 20) - 1, ' ')), "more than the limit of 16777216"},
      {"ArrayAtTop", FileOf("[]"), "start with '{'"},
      {"SpaceFirst", FileOf(" {}"), "start with '{'"},
      {"ByteOrderMark", FileOf("\xEF\xBB\xBF{}"), "start with '{'"},
      {"NotClosed", FileOf("{"), "not valid JSON"},
      {"TwoObjects", FileOf("{}{}"), "not valid JSON"},
      {"NulPadding", FileOf(std::string("{}\0", 3)), "NUL byte"},
      {"TextAfterNul", FileOf(std::string("{}\0{}", 5)), "NUL byte"},
      {"Comment", FileOf("{/* */}"), "not valid JSON"},
      {"TrailingComma", FileOf("{" + w + ",}", four), "not valid JSON"},
      {"BadUtf8", FileOf("{\"\xC0\xAF\":{}}"), "not valid JSON in UTF-8"},
      {"LoneSurrogate", FileOf(R"({"\ud800":{}})"), "not valid JSON in UTF-8"},
      {"NulInName", FileOf(R"({"a\u0000b":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}})"), "without NUL"},
      {"EmptyName", FileOf(R"({"":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}})"), "1 to 1024 bytes"},
      {"LongName", FileOf("{\"" + std::string(1025, 'n') + R"(":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}})"),
       "1 to 1024"},
      {"DeepArrays", FileOf("{\"w\":" + Repeat("[", 100000) + Repeat("]", 100000) + "}"), "an array stands where"},
      {"DeepObjects", FileOf(Repeat("{\"w\":", 100000) + "1" + Repeat("}", 100000)), "unknown field"},
      {"DeepShape", FileOf(Entry("U8", "[[[4]]]", "[0,4]"), four), "an array stands where an integer"},
      {"DuplicateTensor", FileOf("{" + w + "," + w + "}", four), "tensor \"w\" appears twice"},
      {"DuplicateField", FileOf(R"({"w":{"dtype":"U8","dtype":"U8","shape":[4],"data_offsets":[0,4]}})", four), "dtype twice"},
      {"DuplicateMetadata", FileOf(R"({"__metadata__":{},"__metadata__":{}})"), "__metadata__ appears twice"},
      {"DuplicateMetadataKey", FileOf(R"({"__metadata__":{"a":"1","a":"2"}})"), "metadata entry \"a\" appears twice"},
      {"MetadataNumber", FileOf(R"({"__metadata__":{"a":1}})"), "a number stands where a string"},
      {"MetadataNested", FileOf(R"({"__metadata__":{"a":{}}})"), "an object stands where a string"},
      {"MetadataString", FileOf(R"({"__metadata__":"a"})"), "a string stands where"},
      {"TensorNull", FileOf(R"({"w":null})"), "null stands where"},
      {"UnknownField", FileOf(R"({"w":{"strides":[1]}})"), "unknown field \"strides\""},
      {"NoDtype", FileOf(R"({"w":{"shape":[4],"data_offsets":[0,4]}})", four), "lacks dtype"},
      {"NoShape", FileOf(R"({"w":{"dtype":"U8","data_offsets":[0,4]}})", four), "lacks dtype, shape or"},
      {"NoOffsets", FileOf(R"({"w":{"dtype":"U8","shape":[4]}})", four), "data_offsets"},
      {"UnknownDtype", FileOf(Entry("F12", "[4]", "[0,4]"), four), "type \"F12\", which the format does not have"},
      {"PartOfAByte", FileOf(Entry("F4", "[3]", "[0,2]"), std::string(2, 'x')), "12 bits of tensor \"w\" do not fill"},
      {"UnreadDtypeOfOtherSize", FileOf(Entry("C64", "[1]", "[0,4]"), four), "takes 8 bytes by its shape and 4 by its"},
      {"DtypeNumber", FileOf(R"({"w":{"dtype":4}})"), "a number stands where a string as dtype"},
      {"FloatExtent", FileOf(Entry("U8", "[4.0]", "[0,4]"), four), "not an integer"},
      {"ExponentExtent", FileOf(Entry("U8", "[4e0]", "[0,4]"), four), "not an integer"},
      {"NegativeExtent", FileOf(Entry("U8", "[-4]", "[0,4]"), four), "not an integer"},
      {"MinusZero", FileOf(Entry("U8", "[-0]", "[0,0]")), "not an integer"},
      {"Extent2To63", FileOf(Entry("U8", "[9223372036854775808]", "[0,4]"), four), "not an integer"},
      {"Extent2To64", FileOf(Entry("U8", "[18446744073709551616]", "[0,4]"), four), "not an integer"},
      {"RankNine", FileOf(Entry("U8", "[1,1,1,1,1,1,1,1,4]", "[0,4]"), four), "more than 8 numbers"},
      {"ThreeOffsets", FileOf(Entry("U8", "[4]", "[0,2,4]"), four), "more than 2 numbers"},
      {"OneOffset", FileOf(Entry("U8", "[4]", "[4]"), four), "not two numbers"},
      {"OverflowProduct", FileOf(Entry("F32", "[4294967296,4294967296]", "[0,4]"), four), "overflows"},
      {"OverflowToTheSameSize", FileOf(Entry("U8", "[4611686018427387905,4]", "[0,4]"), four), "overflows"},
      {"OverflowBesideZero", FileOf(Entry("F32", "[4611686018427387904,4611686018427387904,0]", "[0,0]")), "overflows"},
      {"OverflowByElementSize", FileOf(Entry("F64", "[2305843009213693952]", "[0,0]")), "overflows"},
      {"HugeTensor", FileOf(Entry("F32", "[1099511627776]", "[0,4398046511104]"), four), "beyond the end"},
      {"EndBeforeBegin", FileOf(Entry("U8", "[4]", "[4,0]"), four), "ends before it begins"},
      {"OffsetsNotShape", FileOf(Entry("F32", "[2]", "[0,4]"), four), "takes 8 bytes by its shape and 4"},
      {"Truncated", FileOf(Entry("U8", "[8]", "[0,8]"), four), "beyond the end"},
      {"TrailingBytes", FileOf(Entry("U8", "[4]", "[0,4]"), four + "x"), "the file holds 5"},
      {"DataWithoutTensors", FileOf("{}", four), "the tensors take 0 bytes, the file holds 4"},
      {"HoleFirst", FileOf(Entry("U8", "[4]", "[4,8]"), eight), "begins at byte 4"},
      {"HoleBetween",
       FileOf(R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"b":{"dtype":"U8","shape":[4],"data_offsets":[4,8]}})",
              eight),
       "tensor \"b\" begins at byte 4 of the data, the one before it ends at 2"},
      {"Overlap",
       FileOf(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"b":{"dtype":"U8","shape":[6],"data_offsets":[2,8]}})",
              eight),
       "tensor \"b\" begins at byte 2"},
      {"ManyTinyTensors", FileOf(ManyTinyTensors(100000)), "more than 65536 tensors"},
  };
}

class MalformedSafetensorsTest : public SafetensorsTest, public testing::WithParamInterface<Malformed> {};

TEST_P(MalformedSafetensorsTest, IsRefusedBeforeAnyTensorExists) {
  WriteBytes(GetParam().bytes);
  AllocationCounter allocations;
  try {
    ReadSafetensors(path_);
    FAIL() << "the file was accepted";
  } catch (const FileError& error) {
    const std::string what = error.what();
    EXPECT_NE(what.find(GetParam().message), std::string::npos) << what;
    EXPECT_NE(what.find(path_ + "', byte "), std::string::npos) << what;
  }
  EXPECT_EQ(allocations.count(), 0);
}

INSTANTIATE_TEST_SUITE_P(, MalformedSafetensorsTest, testing::ValuesIn(MalformedFiles()),
                         [](const testing::TestParamInfo<Malformed>& info) { return info.param.name; });

TEST_F(SafetensorsTest, AllocationsAreCounted) {
  WriteBytes(FileOf(Entry("U8", "[4]", "[0,4]"), std::string(4, '\1')));
  AllocationCounter allocations;
  ReadSafetensors(path_);
  EXPECT_EQ(allocations.count(), 1);
}

TEST_F(SafetensorsTest, EveryTruncationIsRefusedAndNoFlippedBitIsWorseThanThat) {
  WriteSafetensors(path_, {{"a", at::ones({2, 3})}, {"flag", at::zeros({3}, at::kBool)}}, {{"format", "pt"}});
  const std::string whole = ReadBytes();
  for (std::size_t size = 0; size < whole.size(); ++size) {
    WriteBytes(whole.substr(0, size));
    EXPECT_THROW(ReadSafetensors(path_), FileError) << size;
  }
  int refused = 0;
  for (std::size_t bit = 0; bit < 8 * whole.size(); ++bit) {
    std::string bytes = whole;
    bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ (1 << (bit % 8)));
    WriteBytes(bytes);
    try {
      const Safetensors file = ReadSafetensors(path_);
      EXPECT_EQ(file.tensors.size(), 2u) << bit;
    } catch (const FileError&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 1000);  // all but flips inside names, padding and the floats of "a"
}

TEST_F(SafetensorsTest, NamesInMessagesCarryNoControlCharacters) {
  WriteBytes(FileOf(R"({"\u001b[31m":{"dtype":"F1","shape":[0],"data_offsets":[0,0]}})"));
  try {
    ReadSafetensors(path_);
    FAIL();
  } catch (const FileError& error) {
    EXPECT_EQ(std::string(error.what()).find('\x1b'), std::string::npos);
  }
}

TEST_F(SafetensorsTest, BoolsOtherThanZeroAndOneAreRefused) {
  WriteBytes(FileOf(Entry("BOOL", "[2]", "[0,2]"), std::string("\1\2", 2)));
  try {
    ReadSafetensors(path_);
    FAIL();
  } catch (const FileError& error) {
    const auto byte = std::to_string(8 + Entry("BOOL", "[2]", "[0,2]").size() + 1);
    EXPECT_NE(std::string(error.what()).find("byte " + byte + ": tensor \"w\" of type BOOL"), std::string::npos)
        << error.what();
  }
}

// Tensors that heed has no type for do not keep the others from being read.
TEST_F(SafetensorsTest, TypesThatAreNotReadAreNamed) {
  WriteBytes(FileOf(R"({"a":{"dtype":"F4","shape":[3,2],"data_offsets":[0,3]},"b":{"dtype":"U8","shape":[1],)"
                    R"("data_offsets":[3,4]},"c":{"dtype":"C64","shape":[],"data_offsets":[4,12]}})",
                    "xyz\7" + std::string(8, 'c')));
  const Safetensors file = ReadSafetensors(path_);
  EXPECT_EQ(file.unread, (std::map<std::string, std::string>{{"a", "F4"}, {"c", "C64"}}));
  ASSERT_EQ(file.tensors.size(), 1u);
  EXPECT_EQ(file.tensors.at("b").item<int64_t>(), 7);
}

TEST_F(SafetensorsTest, AFileLargerThanTheMemoryIsNotRead) {
  const int64_t size = int64_t{1} << 43;
  WriteBytes(FileOf(Entry("U8", "[" + std::to_string(size) + "]", "[0," + std::to_string(size) + "]")));
  fs::resize_file(path_, fs::file_size(path_) + static_cast<std::uintmax_t>(size));
  const AllocationCounter counter;
  EXPECT_THROW(ReadSafetensors(path_), FileError);
  EXPECT_EQ(counter.count(), 0);
}

TEST_F(SafetensorsTest, CallersLimitsHold) {
  WriteBytes(FileOf(ManyTinyTensors(3)));
  EXPECT_EQ(ReadSafetensors(path_, {.tensors = 3}).tensors.size(), 3u);
  EXPECT_THROW(ReadSafetensors(path_, {.tensors = 2}), FileError);
  EXPECT_THROW(ReadSafetensors(path_, {.header_bytes = 16}), FileError);
  EXPECT_THROW(ReadSafetensors(path_, {.rank = 0}), FileError);
}

TEST_F(SafetensorsTest, OnlyRegularFilesAreRead) {
  ASSERT_EQ(::mkfifo(path_.c_str(), 0600), 0);
  for (const auto& [path, kind] : {std::pair(path_, "FIFO"), std::pair(folder_.string(), "directory"),
                                   std::pair(std::string("/dev/zero"), "device")}) {  // none may wait or be read
    try {
      ReadSafetensors(path);
      FAIL() << path;
    } catch (const FileError& error) {
      EXPECT_EQ(error.what(), "'" + path + "' is a " + kind + "; a regular file is expected");
    }
  }
  EXPECT_THROW(ReadSafetensors((folder_ / "absent").string()), FileError);
}

TEST_F(SafetensorsTest, ForeignOrderPaddingAndEscapesAreRead) {
  const std::string header = R"({ "b" : {"shape":[2], "data_offsets":[0,2], "dtype":"U8"}, "\u00e9":)"
                             R"({"data_offsets":[2,3],"dtype":"I8","shape":[]},"__metadata__":{"format":"pt"},)"
                             R"("none":{"dtype":"F64","shape":[3,0],"data_offsets":[3,3]}}   )";
  WriteBytes(FileOf(header, std::string("\1\2\xFF", 3)));
  const Safetensors file = ReadSafetensors(path_);
  EXPECT_EQ(file.metadata, (std::map<std::string, std::string>{{"format", "pt"}}));
  ASSERT_EQ(file.tensors.size(), 3u);
  EXPECT_TRUE(at::equal(file.tensors.at("b"), at::tensor({1, 2}, at::kByte)));
  EXPECT_TRUE(at::equal(file.tensors.at("\xC3\xA9"), at::scalar_tensor(-1, at::kChar)));
  EXPECT_EQ(file.tensors.at("none").sizes(), (at::IntArrayRef{3, 0}));
}

TEST_F(SafetensorsTest, EveryTypeComesBackBitForBit) {
  std::map<std::string, at::Tensor> tensors;
  for (at::ScalarType dtype :
       {at::kDouble, at::kFloat, at::kHalf, at::kBFloat16, at::kLong, at::kInt, at::kShort, at::kChar, at::kByte, at::kBool}) {
    const std::string name = c10::toString(dtype);
    tensors[name] = at::randint(0, 2, {3, 1, 5}, at::TensorOptions().dtype(dtype));
    tensors[name + ".scalar"] = at::ones({}, at::TensorOptions().dtype(dtype));
    tensors[name + ".empty"] = at::empty({0, 7}, at::TensorOptions().dtype(dtype));
  }
  tensors["special"] = at::tensor({std::numeric_limits<double>::quiet_NaN(), -0.0, std::numeric_limits<double>::infinity(),
                                   std::numeric_limits<double>::denorm_min()},
                                  at::kDouble);
  tensors["transposed"] = at::arange(6, at::kFloat).view({2, 3}).t();
  tensors["expanded"] = at::ones({1}, at::kFloat).expand({4});
  const std::map<std::string, std::string> metadata{{"format", "pt"}, {"note", "\"quoted\"\n\xC3\xA9"}};
  WriteSafetensors(path_, tensors, metadata);

  const Safetensors file = ReadSafetensors(path_);
  EXPECT_EQ(file.metadata, metadata);
  ASSERT_EQ(file.tensors.size(), tensors.size());
  for (const auto& [name, tensor] : tensors) {
    const at::Tensor& read = file.tensors.at(name);
    const at::Tensor expected = tensor.contiguous();
    ASSERT_EQ(read.scalar_type(), expected.scalar_type()) << name;
    ASSERT_EQ(read.sizes(), expected.sizes()) << name;
    EXPECT_TRUE(read.is_contiguous()) << name;
    const bool same =
        expected.numel() == 0 || std::memcmp(read.const_data_ptr(), expected.const_data_ptr(), expected.nbytes()) == 0;
    EXPECT_TRUE(same) << name;
  }
}

TEST_F(SafetensorsTest, WritingIsDeterministicAndPadded) {
  const std::map<std::string, at::Tensor> tensors{{"b", at::ones({3}, at::kFloat)}, {"a", at::zeros({1}, at::kFloat)}};
  WriteSafetensors(path_, tensors);
  const std::string bytes = ReadBytes();
  uint64_t length = 0;
  std::memcpy(&length, bytes.data(), sizeof(length));
  EXPECT_EQ(length % 8, 0u);
  EXPECT_LT(bytes.find("\"a\""), bytes.find("\"b\""));
  WriteSafetensors(path_, tensors);
  EXPECT_EQ(ReadBytes(), bytes);
  EXPECT_EQ(FilesInFolder(), 1);
}

TEST_F(SafetensorsTest, WhatCannotBeStoredIsRefusedByName) {
  const at::Tensor one = at::ones({1});
  EXPECT_THROW(WriteSafetensors(path_, {{"w", at::ones({1}, at::kComplexFloat)}}), InvalidArgument);
  EXPECT_THROW(WriteSafetensors(path_, {{"w", at::Tensor()}}), InvalidArgument);
  EXPECT_THROW(WriteSafetensors(path_, {{"w", at::empty({1}, at::kMeta)}}), InvalidArgument);
  EXPECT_THROW(WriteSafetensors(path_, {{"w", at::ones({1, 1, 1, 1, 1, 1, 1, 1, 1})}}), InvalidArgument);
  EXPECT_THROW(WriteSafetensors(path_, {{"", one}}), InvalidArgument);
  EXPECT_THROW(WriteSafetensors(path_, {{"__metadata__", one}}), InvalidArgument);
  EXPECT_THROW(WriteSafetensors(path_, {{std::string("a\0b", 3), one}}), InvalidArgument);
  EXPECT_THROW(WriteSafetensors(path_, {{"\xFF", one}}), InvalidArgument);
  EXPECT_THROW(WriteSafetensors(path_, {{"w", one}}, {{"k", "\xFF"}}), InvalidArgument);
  EXPECT_EQ(FilesInFolder(), 0);
}

// Files of this process may not grow beyond `bytes` while it lives: the same failing write() as on a full disk.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    handler_ = std::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{bytes, before_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileSizeLimit() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }

 private:
  rlimit before_{};
  void (*handler_)(int) = nullptr;
};

TEST_F(SafetensorsTest, AFullDiskKeepsTheOldFileAndLeavesNoPartialOne) {
  WriteSafetensors(path_, {{"w", at::ones({4})}});
  const std::string before = ReadBytes();
  {
    const FileSizeLimit full(4096);
    EXPECT_THROW(WriteSafetensors(path_, {{"w", at::zeros({4096})}}), FileError);
  }
  EXPECT_EQ(ReadBytes(), before);
  EXPECT_EQ(FilesInFolder(), 1);
}

TEST_F(SafetensorsTest, AFailedReplacementLeavesNothing) {
  fs::create_directory(path_);
  std::ofstream(fs::path(path_) / "occupied") << "x";
  EXPECT_THROW(WriteSafetensors(path_, {{"w", at::ones({4})}}), FileError);
  EXPECT_EQ(FilesInFolder(), 1);
  EXPECT_THROW(WriteSafetensors((folder_ / "absent" / "file").string(), {{"w", at::ones({4})}}), FileError);
}

}  // namespace
}  // namespace heed::nn
