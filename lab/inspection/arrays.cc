#include "lab/inspection/arrays.h"

#include <optional>
#include <string_view>

#include <nlohmann/json.hpp>

#include "heed/nn/replacement_file.h"
#include "lab/inspection/head_attention.h"
#include "lab/report/file.h"
#include "lab/report/json.h"
#include "lab/report/npy.h"

namespace heed::lab {
namespace {

std::string_view Bytes(const at::Tensor& contiguous) {
  return {static_cast<const char*>(contiguous.const_data_ptr()), contiguous.nbytes()};
}

std::string LayerFile(int64_t layer) { return "attention-layer" + std::to_string(layer) + ".npy"; }

// One layer's file after another, filled head by head.
class LayerFiles {
 public:
  LayerFiles(const std::filesystem::path& folder, int64_t heads, int64_t tokens)
      : folder_(folder), heads_(heads), tokens_(tokens) {}

  void Add(const HeadAttention& head) {
    if (written_ == 0) {
      MakeFolderOf(folder_ / LayerFile(head.layer));
      file_.emplace((folder_ / LayerFile(head.layer)).string());
      const std::string header = NpyHeader("f4", {heads_, tokens_, tokens_});
      file_->Write(header.data(), header.size());
    }
    const at::Tensor weights = head.weights.contiguous();
    file_->Write(weights.const_data_ptr(), weights.nbytes());
    if (++written_ < heads_) return;
    file_->Commit();
    file_.reset();
    written_ = 0;
  }

 private:
  const std::filesystem::path& folder_;
  int64_t heads_, tokens_, written_ = 0;
  std::optional<nn::ReplacementFile> file_;
};

nlohmann::ordered_json Index(const Reading& reading, const HeadSelection& selection) {
  const int64_t tokens = reading.tokens;
  const auto heads = static_cast<int64_t>(selection.heads.size()), layers = static_cast<int64_t>(selection.layers.size());
  nlohmann::ordered_json attention = nlohmann::ordered_json::array();
  for (const int64_t layer : selection.layers) {
    attention.push_back({{"file", LayerFile(layer)},
                         {"layer", layer},
                         {"type", "float32"},
                         {"shape", {heads, tokens, tokens}},
                         {"axes", {"head", "query", "key"}}});
  }
  return {{"format", 1},
          {"text", reading.shown},
          {"tokens", tokens},
          {"layers", selection.layers},
          {"heads", selection.heads},
          {"attention", attention},
          {"statistics",
           {{"file", "statistics.npy"},
            {"type", "float32"},
            {"shape", {layers, heads, 4, tokens}},
            {"axes", {"layer", "head", "statistic", "query"}},
            {"names", {"entropy", "max_weight", "mean_distance", "first_token"}}}}};
}

}  // namespace

std::vector<std::filesystem::path> WriteArrays(const Reading& reading, const HeadSelection& selection,
                                               const std::filesystem::path& folder,
                                               const std::function<void(int64_t)>& on_head) {
  const int64_t count = reading.tokens;
  const auto heads = static_cast<int64_t>(selection.heads.size()), layers = static_cast<int64_t>(selection.layers.size());
  std::filesystem::remove(folder / "arrays.json");  // it says that all files are there
  LayerFiles files(folder, heads, count);
  std::string statistics = NpyHeader("f4", {layers, heads, 4, count});
  int64_t done = 0;
  ForEachHead(reading, selection, [&](const HeadAttention& head) {
    files.Add(head);
    for (const at::Tensor& rows : {head.entropy, head.max_weight, head.mean_distance, head.weights.select(1, 0)})
      statistics += Bytes(rows.contiguous());
    if (on_head) on_head(++done);
  });
  WriteFile(folder / "statistics.npy", statistics);
  WriteFile(folder / "arrays.json", JsonText(Index(reading, selection), 1) + "\n");
  std::vector<std::filesystem::path> written;
  written.reserve(selection.layers.size() + 2);
  for (const int64_t layer : selection.layers) written.push_back(folder / LayerFile(layer));
  written.push_back(folder / "statistics.npy");
  written.push_back(folder / "arrays.json");
  return written;
}

}  // namespace heed::lab
