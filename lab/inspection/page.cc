#include "lab/inspection/page.h"

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/core.h>
#include <boost/algorithm/string/replace.hpp>
#include <nlohmann/json.hpp>

#include "heed/nn/replacement_file.h"
#include "inspection_page.h"
#include "lab/inspection/inspection.h"
#include "lab/report/figure.h"
#include "lab/report/file.h"
#include "lab/report/json.h"
#include "lab/report/svg.h"

namespace heed::lab {
namespace {

using Json = nlohmann::ordered_json;

// JSON that may stand in a <script> element: nothing in it can end the element or open a comment.
std::string ScriptJson(const Json& json) { return boost::replace_all_copy(JsonText(json), "<", "\\u003c"); }

Json Numbers(const Inspection& inspection) {
  Json maps = Json::array();
  for (const HeadMap& map : inspection.maps) {
    maps.push_back({{"layer", map.layer},
                    {"head", map.head},
                    {"entropy", map.statistics.entropy},
                    {"maxWeight", map.statistics.max_weight},
                    {"meanDistance", map.statistics.mean_distance},
                    {"firstToken", map.statistics.first_token}});
  }
  return {{"text", inspection.reading.shown},
          {"causal", inspection.geometry.causal},
          {"bin", inspection.geometry.bin},
          {"cells", inspection.geometry.cells()},
          {"stepsPerOctave", inspection.code.steps_per_octave()},
          {"thumbnailSide", inspection.thumbnail_side},
          {"layers", inspection.selection.layers},
          {"heads", inspection.selection.heads},
          {"maps", maps}};
}

std::string PackedThumbnails(const Inspection& inspection) {
  std::vector<uint8_t> codes;
  for (const HeadMap& map : inspection.maps) {
    codes.insert(codes.end(), map.thumbnail.begin(), map.thumbnail.end());
    codes.insert(codes.end(), map.thumbnail_without_first.begin(), map.thumbnail_without_first.end());
  }
  return Pack(codes);
}

std::string PackedMaps(const Inspection& inspection) {
  std::string elements;
  for (const HeadMap& map : inspection.maps) {
    elements += fmt::format("<script type=\"text/plain\" id=\"map-{}-{}\">", map.layer, map.head);
    elements += map.codes;
    elements += "</script>\n";
  }
  return elements;
}

// The template with each {{name}} replaced once. What is put in is not read again.
std::string Fill(std::string_view page, const std::vector<std::pair<std::string_view, std::string>>& parts) {
  std::string filled;
  while (true) {
    const std::size_t open = page.find("{{"), close = page.find("}}", open);
    filled += page.substr(0, open);
    if (open == std::string_view::npos || close == std::string_view::npos) return filled;
    const std::string_view name = page.substr(open + 2, close - open - 2);
    for (const auto& [key, value] : parts) {
      if (key == name) filled += value;
    }
    page.remove_prefix(close + 2);
  }
}

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

std::string PrecisionInWords(const Inspection& inspection) {
  std::string words = fmt::format("Weights are shown to within {:.1f} % of themselves; those below {:.1e} are shown as 0.",
                                  100 * inspection.code.relative_error(), inspection.code.least());
  if (inspection.geometry.bin > 1) {
    words += fmt::format(
        " To keep the page small, a cell of the maps stands for {0} tokens: the weight is what {0} queries give, on average, "
        "to {0} "
        "keys together. Only the first token has a cell of its own. Fewer heads or tokens are shown at full resolution.",
        inspection.geometry.bin);
  }
  return words;
}

std::string InspectionPage(const Inspection& inspection, const std::string& model) {
  const Reading& reading = inspection.reading;
  const std::string about =
      fmt::format("{} layers, {} heads, positions: {}; {}", reading.layers, reading.heads, reading.position,
                  inspection.geometry.causal ? "causal: a token sees itself and what is before it"
                                             : "a token sees both sides; nothing is hidden from it here");
  std::string script;
  for (const std::string_view part : {text::kCharactersJs, text::kWeightsJs, text::kColoursJs, text::kHeadsJs, text::kMapJs,
                                      text::kTokensJs, text::kPageJs}) {
    script += part;
  }
  return Fill(text::kPageHtml, {{"model", EscapeMarkup(model)},
                                {"text", EscapeMarkup(reading.name)},
                                {"tokens", std::to_string(reading.tokens) + " " + reading.unit},
                                {"legend", EscapeMarkup(reading.legend)},
                                {"about", EscapeMarkup(about)},
                                {"precision", EscapeMarkup(PrecisionInWords(inspection))},
                                {"style", std::string(text::kPageCss)},
                                {"numbers", ScriptJson(Numbers(inspection))},
                                {"thumbnails", PackedThumbnails(inspection)},
                                {"script", std::move(script)},
                                {"maps", PackedMaps(inspection)}});
}

nlohmann::ordered_json InspectionJson(const Inspection& inspection) {
  nlohmann::ordered_json heads = nlohmann::ordered_json::array();
  for (const HeadMap& map : inspection.maps) {
    heads.push_back({{"layer", map.layer},
                     {"head", map.head},
                     {"entropy", map.statistics.entropy},
                     {"max_weight", map.statistics.max_weight},
                     {"mean_distance", map.statistics.mean_distance},
                     {"first_token", map.statistics.first_token}});
  }
  return {{"tokens", inspection.geometry.tokens},       {"causal", inspection.geometry.causal},
          {"tokens_per_cell", inspection.geometry.bin}, {"relative_error", inspection.code.relative_error()},
          {"least_weight", inspection.code.least()},    {"heads", heads}};
}

Table HeadTable(const Inspection& inspection) {
  Table table{
      "Means over the queries of each head", {"Layer", "Head", "Entropy", "Largest weight", "Distance", "First token"}, {}};
  for (const HeadMap& map : inspection.maps) {
    const HeadStatistics& means = map.statistics;
    table.rows.push_back({std::to_string(map.layer), std::to_string(map.head), fmt::format("{:.3f}", means.entropy),
                          fmt::format("{:.3f}", means.max_weight), fmt::format("{:.1f}", means.mean_distance),
                          fmt::format("{:.1f} %", 100 * means.first_token)});
  }
  return table;
}

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
