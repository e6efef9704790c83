// A heed module in a program that has LibTorch of its own: shape, gradient and an error that can be caught across libraries.
#include <heed/nn.h>

#include <ATen/ATen.h>

#include <cstdio>

int main() {
  heed::nn::MultiHeadAttention attention(100, 5, 0.0);
  const at::Tensor X = at::ones({2, 4, 100});
  const at::Tensor out = attention->forward(X, X, X, at::tensor({3, 2}));
  out.sum().backward();
  bool refused = false;
  try {
    heed::nn::MultiHeadAttention(100, 7, 0.0);
  } catch (const heed::InvalidArgument& error) {
    std::puts(error.what());
    refused = true;
  }
  const bool shape = out.sizes() == at::IntArrayRef({2, 4, 100});
  return shape && refused && attention->W_q->weight.grad().defined() ? 0 : 1;
}
