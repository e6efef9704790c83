#include <algorithm>

#include "encoders/residual_encoder.h"
#include "heed/error.h"
#include "heed/packed_matrix.h"
#include "parameter.h"

namespace heed {
namespace {

int64_t DilationOf(const EncoderOptions& options, int64_t layer) {
  int64_t dilation = 1;
  for (int64_t l = 0; options.encoder == "dilated" && l < layer; ++l) {
    if (__builtin_mul_overflow(dilation, options.kernel, &dilation) || dilation > (int64_t{1} << 40))
      throw InvalidArgument("dilated: layers (" + std::to_string(options.layers) + ") and kernel (" +
                            std::to_string(options.kernel) + ") make a dilation that is too large");
  }
  return dilation;
}

// Layers of gelu(Conv1d), centred or causal. Parameters convolution0.weight [width, width, kernel], convolution0.bias, ..
class ConvolutionEncoder final : public ResidualEncoder {
 public:
  explicit ConvolutionEncoder(const EncoderOptions& options)
      : ResidualEncoder(options), layers_(static_cast<std::size_t>(options.layers)) {
    if (options.kernel < 1 || (!options.causal && options.kernel % 2 == 0))
      throw InvalidArgument("convolution: kernel must be positive, and odd unless causal, got " +
                            std::to_string(options.kernel));
    for (int64_t l = 0; l < options.layers; ++l) layers_[l].dilation = DilationOf(options, l);
  }

 private:
  struct Layer {
    int64_t dilation = 1;
    PackedMatrix weight;  // [width, kernel * width]: all columns of the first step of a window, then those of the next
    std::vector<float> bias;
  };

  void AddMixParameters(int64_t layer, Parameters& own) override {
    const int64_t width = options().width, kernel = options().kernel;
    Layer& mine = layers_[layer];
    const auto pack = [=, &mine](std::span<const float> values) {
      std::vector<float> by_step(values.size());
      for (int64_t out = 0; out < width; ++out) {
        for (int64_t in = 0; in < width; ++in) {
          for (int64_t k = 0; k < kernel; ++k)
            by_step[(out * kernel + k) * width + in] = values[(out * width + in) * kernel + k];
        }
      }
      mine.weight = PackedMatrix(View<const float, 2>::Contiguous(by_step.data(), {width, kernel * width}));
    };
    const std::string name = "convolution" + std::to_string(layer);
    own.list.push_back({name + ".weight", {width, width, kernel}, pack});
    if (options().bias) own.list.push_back(KeptIn(mine.bias, name + ".bias", {width}));
  }

  void Mix(int64_t layer, View<float, 3> X, View<float, 3> Y, const EncoderCall& call) const override {
    const ModelWorkspace::Frame frame(call.workspace);
    const Layer& mine = layers_[layer];
    const int64_t steps = X.extent[1], width = X.extent[2], kernel = options().kernel, reach = (kernel - 1) * mine.dilation;
    const int64_t left = options().causal ? reach : reach / 2;
    const View<float, 2> windows = call.workspace.TakeRows(X.extent[0] * steps, kernel * width);
    for (int64_t place = 0; place < windows.extent[0]; ++place) {
      const int64_t row = place / steps, step = place % steps;
      for (int64_t k = 0; k < kernel; ++k) {
        const int64_t from = step + k * mine.dilation - left;
        float* const to = &windows(place, k * width);
        if (from < 0 || from >= steps) {
          std::fill_n(to, width, 0.0f);
        } else {
          std::copy_n(&X(row, from, 0), width, to);
        }
      }
    }
    mine.weight.Multiply(windows, BiasOf(mine.bias), AllRows(Y), call.executor);
    for (int64_t i = 0; i < Y.size(); ++i) Y.data[i] = Activate(Y.data[i], Activation::kGelu);
  }

  std::vector<Layer> layers_;
};

}  // namespace

std::unique_ptr<SequenceEncoder> MakeConvolutionEncoder(const EncoderOptions& options) {
  return std::make_unique<ConvolutionEncoder>(options);
}

}  // namespace heed
