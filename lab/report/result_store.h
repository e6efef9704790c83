// Finished results in a folder, so that work that was stopped goes on where it was.
#ifndef HEED_LAB_REPORT_RESULT_STORE_H_
#define HEED_LAB_REPORT_RESULT_STORE_H_

#include <filesystem>
#include <optional>
#include <string>
#include <utility>

#include <nlohmann/json.hpp>

namespace heed::lab {

// One file a result, <name>.json, which holds the settings that it came from beside it.
class ResultStore {
 public:
  // `shared` is what all results depend on beside their own settings: the text, the versions, the processor.
  ResultStore(std::filesystem::path folder, nlohmann::ordered_json shared)
      : folder_(std::move(folder)), shared_(std::move(shared)) {}

  // Nothing where there is no file, where it cannot be read, or where its settings are not exactly these.
  std::optional<nlohmann::ordered_json> Find(const std::string& name, const nlohmann::ordered_json& settings) const;
  // Throws FileError.
  void Keep(const std::string& name, const nlohmann::ordered_json& settings, const nlohmann::ordered_json& result) const;

  // Removes what is kept under this name, if anything: a file beside it is about to change.
  void Forget(const std::string& name) const;

  const std::filesystem::path& folder() const { return folder_; }

 private:
  nlohmann::ordered_json All(const nlohmann::ordered_json& settings) const;

  std::filesystem::path folder_;
  nlohmann::ordered_json shared_;
};

}  // namespace heed::lab

#endif  // HEED_LAB_REPORT_RESULT_STORE_H_
