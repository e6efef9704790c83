#include <string>
#include <utility>

#include "refuse.h"
#include "residual_layers.h"
#include "sequence.h"
#include "valid_lens.h"

namespace heed::nn {
namespace {

int64_t Dilation(const EncoderOptions& options, int64_t layer) {
  int64_t dilation = 1;
  for (int64_t l = 0; options.dilated() && l < layer; ++l) {
    if (__builtin_mul_overflow(dilation, options.kernel(), &dilation) || dilation > (int64_t{1} << 40)) {
      Refuse("ConvolutionEncoder: layers (", options.layers(), ") and kernel (", options.kernel(),
             ") make a dilation that is too large");
    }
  }
  return dilation;
}

torch::nn::Conv1d MakeConvolution(const EncoderOptions& options, int64_t layer) {
  return torch::nn::Conv1d(torch::nn::Conv1dOptions(options.width(), options.width(), options.kernel())
                               .dilation(Dilation(options, layer))
                               .bias(options.bias()));
}

}  // namespace

ConvolutionEncoderImpl::ConvolutionEncoderImpl(EncoderOptions options_)
    : ResidualEncoder("ConvolutionEncoder", std::move(options_)) {
  if (options.kernel() < 1 || (!options.causal() && options.kernel() % 2 == 0)) {
    Refuse("ConvolutionEncoder: kernel must be positive, and odd unless causal, got ", options.kernel());
  }
  for (int64_t l = 0; l < options.layers(); ++l) {
    convolutions.push_back(register_module("convolution" + std::to_string(l), MakeConvolution(options, l)));
  }
  AddNormsAndFfns();
}

torch::Tensor ConvolutionEncoderImpl::forward(const torch::Tensor& X, const torch::Tensor& valid_lens, int64_t) {
  CheckInput("ConvolutionEncoder", X, options.width());
  RefuseSequencePart("ConvolutionEncoder", "a step is computed of those beside it, which other ranks may have");
  const at::Tensor padding = Padding(ClampValidLens(valid_lens, X.size(0), -1, X.size(1)), X.size(1));
  const auto convolve = [&](size_t l, const at::Tensor& Y) {
    const int64_t reach = (options.kernel() - 1) * Dilation(options, static_cast<int64_t>(l));
    const int64_t left = options.causal() ? reach : reach / 2;
    const at::Tensor padded = at::constant_pad_nd(Blank(Y, padding).transpose(1, 2), {left, reach - left});
    return Activate(convolutions[l](padded).transpose(1, 2), options.activation());
  };
  return Blank(Layers(Blank(X, padding), convolve), padding);
}

}  // namespace heed::nn
