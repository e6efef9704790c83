// The config.json of a kept model: hostile until checked, member by member.
#ifndef HEED_INFERENCE_SRC_CONFIG_READER_H_
#define HEED_INFERENCE_SRC_CONFIG_READER_H_

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace heed {

// All throw FileError that names the file and the member.
class ConfigReader {
 public:
  using Json = nlohmann::json;

  // The file at `path`, an object.
  explicit ConfigReader(const std::string& path);
  // The same of its text.
  ConfigReader(std::string path, const std::string& text);

  const Json& file() const { return json_; }
  [[noreturn]] void Fail(const std::string& what) const;

  static bool Has(const Json& object, const char* name) { return object.contains(name); }
  const Json& Member(const Json& object, const char* name) const;
  const Json& Object(const Json& object, const char* name) const;
  std::string Text(const Json& object, const char* name) const;
  bool Flag(const Json& object, const char* name) const;
  double Number(const Json& object, const char* name) const;
  int64_t Integer(const Json& object, const char* name, int64_t low = std::numeric_limits<int64_t>::min(),
                  int64_t high = std::numeric_limits<int64_t>::max()) const;
  std::vector<double> Numbers(const Json& object, const char* name) const;
  std::vector<std::string> Texts(const Json& object, const char* name) const;

  // By the kind of the field.
  void Read(const Json& object, const char* name, std::string& field) const { field = Text(object, name); }
  void Read(const Json& object, const char* name, bool& field) const { field = Flag(object, name); }
  void Read(const Json& object, const char* name, double& field) const { field = Number(object, name); }
  void Read(const Json& object, const char* name, int64_t& field) const { field = Integer(object, name); }
  void Read(const Json& object, const char* name, std::vector<double>& field) const { field = Numbers(object, name); }
  void Read(const Json& object, const char* name, std::vector<std::string>& field) const { field = Texts(object, name); }

 private:
  using Is = bool (Json::*)() const noexcept;
  const Json& Member(const Json& object, const char* name, Is is, const char* expected) const;
  template <class T>
  std::vector<T> List(const Json& object, const char* name, Is is, const char* expected) const;

  std::string path_;
  Json json_;
};

}  // namespace heed

#endif  // HEED_INFERENCE_SRC_CONFIG_READER_H_
