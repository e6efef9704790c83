#include "safetensors_index.h"

#include <algorithm>
#include <set>
#include <string_view>
#include <utility>

#include <nlohmann/json.hpp>

#include "heed/error.h"
#include "heed/input_file.h"
#include "heed/safetensors.h"

namespace heed {
namespace {

constexpr std::string_view kIndexSuffix = ".index.json", kShardSuffix = ".safetensors";
constexpr std::size_t kMaxFileName = 255;  // bytes, as file systems have it
constexpr int kDeepestMetadata = 4;

// Receives the index token by token. Metadata may hold any small thing and is passed over.
class IndexReader final : public nlohmann::json_sax<nlohmann::json> {
 public:
  IndexReader(const std::string& path, const SafetensorsLimits& limits) : path_(path), limits_(limits) {}

  std::map<std::string, std::string> Read(const std::string& text) {
    nlohmann::json::sax_parse(text, this);
    if (!seen_.contains("weight_map")) Fail("the weight_map is missing");
    return std::move(files_);
  }

  bool start_object(std::size_t) override {
    if (depth_ == 1 && (key_ == "weight_map" || key_ == "metadata")) {
      inside_map_ = key_ == "weight_map";
    } else if (depth_ > 0) {
      Nested("an object");
    }
    ++depth_;
    return true;
  }
  bool end_object() override {
    --depth_;
    return true;
  }
  bool start_array(std::size_t) override {
    Nested("an array");
    ++depth_;
    return true;
  }
  bool end_array() override { return end_object(); }

  bool key(std::string& name) override {
    if (depth_ == 1) {
      if (name != "weight_map" && name != "metadata") Fail("the key " + QuotedName(name) + " is unknown");
      if (!seen_.insert(name).second) Fail("the key " + QuotedName(name) + " appears twice");
    } else if (inside_map_) {
      if (!IsTensorName(name)) Fail("the name " + QuotedName(name) + " is not 1 to 1024 bytes without NUL");
      if (files_.contains(name)) Fail("tensor " + QuotedName(name) + " appears twice");
      if (static_cast<int64_t>(files_.size()) >= limits_.tensors) {
        Fail("more than " + std::to_string(limits_.tensors) + " tensors");
      }
    }
    key_ = name;
    return true;
  }

  bool string(std::string& text) override {
    if (!InMap()) return Scalar("a string");
    const bool is_name = text.size() <= kMaxFileName && text.size() > kShardSuffix.size() && text.ends_with(kShardSuffix) &&
                         text.find_first_of(std::string_view("/\\\0", 3)) == std::string::npos &&
                         text.find("..") == text.npos &&
                         std::ranges::none_of(text, [](unsigned char c) { return c < 0x20 || c == 0x7f; });
    if (!is_name)
      Fail("tensor " + QuotedName(key_) + " lies in " + QuotedName(text) + ", which names no file beside the index");
    shards_.insert(text);
    if (static_cast<int64_t>(shards_.size()) > kMaxShards) Fail("more than " + std::to_string(kMaxShards) + " files");
    files_.emplace(key_, text);
    return true;
  }

  bool null() override { return Scalar("null"); }
  bool boolean(bool) override { return Scalar("a boolean"); }
  bool number_integer(int64_t) override { return Scalar("a number"); }
  bool number_unsigned(uint64_t) override { return Scalar("a number"); }
  bool number_float(double, const std::string&) override { return Scalar("a number"); }
  bool binary(nlohmann::json::binary_t&) override { return Scalar("binary data"); }
  bool parse_error(std::size_t byte, const std::string&, const nlohmann::json::exception&) override {
    throw FileError("'" + path_ + "', byte " + std::to_string(byte) + ": the index is not valid JSON in UTF-8");
  }

 private:
  [[noreturn]] void Fail(const std::string& what) const { throw FileError("'" + path_ + "': " + what); }
  bool InMap() const { return inside_map_ && depth_ == 2; }

  bool Scalar(const std::string& what) const {
    if (depth_ < 2) Fail(what + " stands where an object is expected");
    if (InMap()) Fail(what + " stands where the file of tensor " + QuotedName(key_) + " is expected");
    return true;
  }
  void Nested(const std::string& what) const {
    Scalar(what);
    if (depth_ >= kDeepestMetadata) Fail("metadata nest more than " + std::to_string(kDeepestMetadata) + " levels deep");
  }

  const std::string& path_;
  const SafetensorsLimits& limits_;
  int depth_ = 0;
  bool inside_map_ = false;
  std::string key_;
  std::set<std::string> seen_, shards_;
  std::map<std::string, std::string> files_;
};

}  // namespace

bool IsSafetensorsIndex(const std::string& path) { return path.ends_with(kIndexSuffix); }

std::map<std::string, std::string> ReadSafetensorsIndex(const std::string& path, const SafetensorsLimits& limits) {
  const std::string text = ReadFile(path, std::min(limits.header_bytes, kMaxHeaderBytes));
  // The parser would take a NUL byte for the end.
  if (const std::size_t nul = text.find('\0'); nul != text.npos) {
    throw FileError("'" + path + "', byte " + std::to_string(nul) + ": the index holds a NUL byte");
  }
  return IndexReader(path, limits).Read(text);
}

}  // namespace heed
