// What is precompiled: the parts of LibTorch that the modules and their tests use.
#ifndef HEED_NN_SRC_TORCH_HEADERS_H_
#define HEED_NN_SRC_TORCH_HEADERS_H_

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>
#include <torch/nn/cloneable.h>
#include <torch/nn/init.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>
#include <torch/nn/modules/rnn.h>
#include <torch/nn/pimpl.h>
#include <torch/nn/utils/rnn.h>
#include <torch/types.h>

#endif  // HEED_NN_SRC_TORCH_HEADERS_H_
