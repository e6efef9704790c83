// Networks of kept models: input, encoder, mean or not, head. See lab/training/sequence_model.h.
#include <algorithm>
#include <cmath>
#include <utility>

#include "encoders/sequence_encoder.h"
#include "heed/error.h"
#include "heed/layers.h"
#include "kept_network.h"
#include "parameter.h"
#include "series/answerer.h"

namespace heed {
namespace {

constexpr double kMostTable = 1 << 28;  // numbers of the tables of a positional scheme
constexpr int64_t kMostLayers = 1024, kMostWidth = 1 << 16, kMostSteps = 1 << 20;

struct NetworkOptions {
  EncoderOptions encoder;
  int64_t symbols = 0, features = 0, outputs = 1, longest = 64;
  bool pooled = false;
};

NetworkOptions ReadOptions(const ConfigReader& config) {
  const ConfigReader::Json& json = config.Object(config.file(), "network");
  NetworkOptions network;
  EncoderOptions& encoder = network.encoder;
  encoder.encoder = config.Text(json, "encoder"), encoder.position = config.Text(json, "position");
  encoder.causal = config.Flag(json, "causal");
  network.symbols = config.Integer(json, "symbols", 0, kMostSteps);
  network.features = config.Integer(json, "features", 0, kMostSteps);
  network.outputs = config.Integer(json, "outputs", 1, kMostSteps);
  network.pooled = config.Flag(json, "pooled");
  encoder.layers = config.Integer(json, "layers", 1, kMostLayers);
  encoder.heads = config.Integer(json, "heads", 1, kMostWidth);
  encoder.width = config.Integer(json, "width", 1, kMostWidth);
  encoder.ffn_width = config.Integer(json, "ffn_width", 0, 4 * kMostWidth);
  encoder.query_key_norm = QueryKeyNormNamed(config.Text(json, "query_key_norm"));
  network.longest = encoder.max_len = config.Integer(json, "longest", 1, kMostSteps);
  constexpr int64_t kLeastT5Distance = 17;  // half of a causal side's buckets hold one distance each
  encoder.max_distance = std::max(encoder.position == "t5" ? kLeastT5Distance : 1, network.longest);
  return network;
}

// What the form says of the network's ends must be what the network has.
void RequireFits(const ConfigReader& config, const SeriesForm& form, const NetworkOptions& network) {
  const int64_t levels = form.Forecasts() ? std::ssize(form.features) : 0;
  if (network.symbols != 0 || network.features != form.width() + levels || network.outputs != form.outputs() ||
      network.pooled == form.each_step || network.encoder.causal != form.Forecasts() || network.longest < form.steps())
    config.Fail("'network' and 'form' contradict each other");
}

void RequirePlausible(const ConfigReader& config, const std::string& weights_path, const NetworkOptions& network) {
  const EncoderOptions& encoder = network.encoder;
  if (!HoldsWeightsOf(encoder, network.features + network.outputs, weights_path))
    config.Fail("the model that 'network' describes has more weights than model.safetensors holds");
  const double table =
      static_cast<double>(encoder.layers) * static_cast<double>(encoder.width) * static_cast<double>(network.longest);
  if (encoder.position != "none" && table > kMostTable) config.Fail("'longest' is too large for tables of this width");
}

// A rounded running sum is what the laboratory trained with.
float Rounded(double sum) { return static_cast<float>(sum); }

class Network final : public WindowAnswerer {
 public:
  Network(const NetworkOptions& options, const SeriesForm& form)
      : options_(options),
        levels_(form.Forecasts() ? std::ssize(form.features) : 0),
        last_only_(form.Forecasts()),
        input_(options.features, options.encoder.width),
        encoder_(MakeEncoder(options.encoder)),
        head_(options.encoder.width, options.outputs) {}

  Parameters parameters() {
    Parameters own;
    own.Add("input", input_.parameters());
    own.Add("encoder", encoder_->parameters());
    own.Add("head", head_.parameters());
    if (levels_ > 0) own.list.push_back(KeptIn(scale_, "levels", {levels_}));
    return own;
  }

  bool HasScales() const {
    return std::ranges::all_of(scale_, [](float scale) { return scale > 0; });
  }

  void AnswerBatch(const SeriesBatch& batch, View<double, 2> out, ModelWorkspace& workspace,
                   Executor& executor) const override {
    const ModelWorkspace::Frame frame(workspace);
    const int64_t all = batch.rows * batch.steps, width = options_.encoder.width;
    const View<float, 2> read = workspace.TakeRows(all, options_.features), hidden = workspace.TakeRows(all, width);
    AddLevels(batch, read);
    input_.Forward(read, hidden, executor);
    encoder_->Forward(View<float, 3>::Contiguous(hidden.data, {batch.rows, batch.steps, width}),
                      EncoderCall{.workspace = workspace,
                                  .executor = executor,
                                  .lengths = batch.padded ? batch.lengths : nullptr,
                                  .times = batch.times});
    View<float, 2> answering = hidden;
    if (options_.pooled) answering = Means(batch, hidden, workspace);
    if (last_only_) answering = Lasts(batch, hidden, workspace);
    const View<float, 2> answers = workspace.TakeRows(answering.extent[0], options_.outputs);
    head_.Forward(answering, answers, executor);
    for (int64_t i = 0; i < answers.extent[0]; ++i) {
      for (int64_t o = 0; o < options_.outputs; ++o) out(i, o) = static_cast<double>(answers(i, o));
    }
  }

 private:
  // Features of a batch, and of a forecast beside them each column less its mean over the window's steps so far, in units of
  // its scale: see LevelScales of lab/series/kept_model.h.
  void AddLevels(const SeriesBatch& batch, View<float, 2> read) const {
    const int64_t width = batch.features.extent[2];
    for (int64_t row = 0; row < batch.rows; ++row) {
      for (int64_t i = 0; i < batch.steps; ++i) std::copy_n(&batch.features(row, i, 0), width, &read(row * batch.steps + i, 0));
      for (int64_t c = 0; c < levels_; ++c) {
        double level = 0, sum = 0;
        for (int64_t i = 0; i < batch.steps; ++i) {
          // The window's own first change came before it.
          if (i > 0) level += batch.features(row, i, c);
          sum += Rounded(level);
          const float mean = Rounded(sum) / static_cast<float>(i + 1);
          read(row * batch.steps + i, width + c) = (Rounded(level) - mean) / scale_[c];
        }
      }
    }
  }

  static View<float, 2> Means(const SeriesBatch& batch, View<float, 2> hidden, ModelWorkspace& workspace) {
    const View<float, 2> means = workspace.TakeRows(batch.rows, hidden.extent[1]);
    for (int64_t row = 0; row < batch.rows; ++row) {
      const int64_t length = batch.lengths[row];
      for (int64_t c = 0; c < hidden.extent[1]; ++c) {
        double sum = 0;
        for (int64_t i = 0; i < length; ++i) sum += hidden(row * batch.steps + i, c);
        means(row, c) = static_cast<float>(sum / static_cast<double>(length));
      }
    }
    return means;
  }

  static View<float, 2> Lasts(const SeriesBatch& batch, View<float, 2> hidden, ModelWorkspace& workspace) {
    const View<float, 2> lasts = workspace.TakeRows(batch.rows, hidden.extent[1]);
    for (int64_t row = 0; row < batch.rows; ++row)
      std::copy_n(&hidden(row * batch.steps + batch.lengths[row] - 1, 0), hidden.extent[1], &lasts(row, 0));
    return lasts;
  }

  NetworkOptions options_;
  int64_t levels_;
  bool last_only_;
  Linear input_;
  std::unique_ptr<SequenceEncoder> encoder_;
  Linear head_;
  std::vector<float> scale_;
};

}  // namespace

std::unique_ptr<SeriesModel::Answerer> ReadNetwork(const ConfigReader& config, const std::string& weights_path,
                                                   const SeriesForm& form) {
  const NetworkOptions options = ReadOptions(config);
  RequireFits(config, form, options);
  RequirePlausible(config, weights_path, options);
  auto network = std::make_unique<Network>(options, form);
  LoadFiniteWeights(network->parameters(), weights_path);
  if (!network->HasScales()) throw FileError(weights_path + ": 'levels' is not a positive number for each feature");
  return network;
}

}  // namespace heed
