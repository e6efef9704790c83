#include "encoders/residual_encoder.h"

#include "heed/error.h"

namespace heed {

ResidualEncoder::ResidualEncoder(const EncoderOptions& options) : options_(options), final_norm_(options.width) {
  for (int64_t l = 0; l < options.layers; ++l) {
    norms_.emplace_back(options.width);
    if (options.ffn_width == 0) continue;
    ffn_norms_.emplace_back(options.width);
    ffns_.emplace_back(options.width, options.ffn_width, Activation::kGelu);
  }
}

int64_t ResidualEncoder::WidthOfAWay() const {
  if (options_.causal) return options_.width;
  if (options_.width % 2 != 0)
    throw InvalidArgument(options_.encoder + ": width must be even unless causal (half reads forwards, half backwards), got " +
                          std::to_string(options_.width));
  return options_.width / 2;
}

Parameters ResidualEncoder::parameters() {
  Parameters own;
  for (int64_t l = 0; l < options_.layers; ++l) {
    const std::string number = std::to_string(l);
    AddMixParameters(l, own);
    own.Add("norm" + number, norms_[l].parameters());
    if (ffns_.empty()) continue;
    own.Add("ffn_norm" + number, ffn_norms_[l].parameters());
    own.Add("ffn" + number, ffns_[l].parameters());
  }
  own.Add("final_norm", final_norm_.parameters());
  return own;
}

void ResidualEncoder::Forward(View<float, 3> X, const EncoderCall& call) const {
  const ModelWorkspace::Frame frame(call.workspace);
  const View<float, 2> rows = AllRows(X);
  const View<float, 2> normal = call.workspace.TakeRows(rows.extent[0], rows.extent[1]),
                       added = call.workspace.TakeRows(rows.extent[0], rows.extent[1]);
  const auto by_row = [&](View<float, 2> some) { return View<float, 3>::Contiguous(some.data, X.extent); };
  const auto add = [&] {
    for (int64_t i = 0; i < rows.size(); ++i) rows.data[i] += added.data[i];
  };
  Blank(X, call.lengths);
  for (int64_t l = 0; l < options_.layers; ++l) {
    norms_[l].Forward(rows, normal);
    Blank(by_row(normal), call.lengths);
    Mix(l, by_row(normal), by_row(added), call);
    Blank(by_row(added), call.lengths);
    add();
    if (ffns_.empty()) continue;
    ffn_norms_[l].Forward(rows, normal);
    ffns_[l].Forward(normal, added, call.workspace, call.executor);
    add();
  }
  final_norm_.Forward(rows, rows);
  Blank(X, call.lengths);
}

}  // namespace heed
