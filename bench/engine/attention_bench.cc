// Speed of the kernels as a share of the FMA peak of the same core in the same run. Chooses tile sizes; not a test.
//   attention_bench [TARGET [decode | BATCH HEADS LENGTH WIDTH full|causal]]
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "bench/fastest.h"
#include "heed/attention.h"
#include "reference/line_array.h"
#include "reference/peaks.h"

namespace {

using heed::View;
using heed::bench::Fastest;

using Array = heed::reference::LineArray<float>;

struct Shape {
  int64_t batch, heads, length, width;
  heed::Causal causal;
  double dropout;
  int64_t max_distance;
};

void Measure(const Shape& s) {
  const std::array<int64_t, 4> extent{s.batch, s.heads, s.length, s.width};
  const int64_t size = s.batch * s.heads * s.length * s.width;
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  std::vector<Array> arrays(8, Array(static_cast<size_t>(size)));
  for (int a = 0; a < 4; ++a)
    for (float& x : arrays[static_cast<size_t>(a)]) x = normal(random);
  const auto view = [&](int a) { return View<float, 4>::Contiguous(arrays[static_cast<size_t>(a)].data(), extent); };
  std::vector<float> lse(static_cast<size_t>(s.batch * s.heads * s.length));
  const auto lse_view = View<float, 3>::Contiguous(lse.data(), {s.batch, s.heads, s.length});
  heed::Attention attention;
  attention.causal = s.causal;
  attention.dropout.probability = s.dropout;
  std::vector<float> table(static_cast<size_t>(s.heads * (2 * s.max_distance + 1)), 0.1f), d_table(table.size());
  heed::BiasGradients<float> d_biases;
  if (s.max_distance > 0) {
    attention.relative_bias =
        heed::RelativeBias{View<const float, 2>::Contiguous(table.data(), {s.heads, 2 * s.max_distance + 1})};
    d_biases.relative_bias = View<float, 2>::Contiguous(d_table.data(), {s.heads, 2 * s.max_distance + 1});
  }
  heed::Workspace workspace;
  heed::SerialExecutor serial;
  const double peak = heed::reference::FmaPeak(4);
  const double forward =
      Fastest([&] { heed::Forward(attention, view(0), view(1), view(2), view(4), lse_view, workspace, serial); });
  const double backward = Fastest([&] {
    heed::Backward(attention, view(0), view(1), view(2), view(4), lse_view, view(3), view(5), view(6), view(7), d_biases,
                   workspace, serial);
  });
  // Any numbers serve: tangents take as long whatever they are.
  heed::Tangents<float> tangents{.q = view(3), .k = view(1), .v = view(2), .biases = {}};
  if (s.max_distance > 0)
    tangents.biases.relative_bias = View<float, 2>::Contiguous(table.data(), d_biases.relative_bias.extent);
  const double tangent = Fastest([&] {
    heed::Tangent(attention, view(0), view(1), view(2), tangents, view(4), view(5), lse_view, {}, workspace, serial);
  });
  // The gradients of gradients of q, k and v: the tangent, and that of the backward pass.
  const heed::BackwardInputs<float> inputs{
      .q = view(0), .k = view(1), .v = view(2), .out = view(4), .lse = lse_view, .d_out = view(3)};
  const double second = tangent + Fastest([&] {
                          heed::BackwardTangent(attention, inputs, tangents, {.out = view(3), .lse = lse_view}, view(5),
                                                view(6), view(7), d_biases, workspace, serial);
                        });
  const double flops =
      4.0 * static_cast<double>(size) * static_cast<double>(s.length) * (s.causal == heed::Causal::kNone ? 1 : 0.5);
  std::printf(
      "B%-3ld H%-2ld n%-5ld d%-4ld %-6s p%.1f bias%-5ld peak %6.1f GFLOP/s  forward %8.3f ms %5.1f %%  backward %8.3f ms %5.1f "
      "%%  tangent %8.3f ms, %4.2f of forward  second backward %8.3f ms, %4.2f of backward\n",
      s.batch, s.heads, s.length, s.width, s.causal == heed::Causal::kNone ? "full" : "causal", s.dropout, s.max_distance,
      peak * 1e-9, forward * 1e3, 100 * flops / forward / peak, backward * 1e3, 100 * 2.5 * flops / backward / peak,
      tangent * 1e3, tangent / forward, second * 1e3, second / backward);
}

// One query of eight heads on `key_heads`, beside reading as many bytes.
void MeasureDecoding(int64_t key_heads, int64_t keys, int64_t width) {
  constexpr int64_t kHeads = 8;
  const int64_t count = key_heads * keys * width;
  const auto size = static_cast<std::size_t>(count);
  Array k(size, 0.01f), v(size, 0.02f), q(static_cast<std::size_t>(kHeads * width), 0.1f), out(q.size());
  std::vector<float> lse(kHeads);
  const auto rows = [&](auto& array) { return View<float, 4>::Contiguous(array.data(), {1, key_heads, keys, width}); };
  const auto query = [&](auto& array) { return View<float, 4>::Contiguous(array.data(), {1, kHeads, 1, width}); };
  heed::Workspace workspace;
  heed::SerialExecutor serial;
  float sink = 0;
  const double step = Fastest([&] {
    heed::Forward(heed::Attention{}, query(q), rows(k), rows(v), query(out),
                  View<float, 3>::Contiguous(lse.data(), {1, kHeads, 1}), workspace, serial);
  });
  const double read =
      Fastest([&] { sink += heed::reference::ReadAll(k.data(), count) + heed::reference::ReadAll(v.data(), count); });
  const double gigabytes = 2e-9 * static_cast<double>(count) * sizeof(float);
  std::printf("one query, 8 heads on %ld, %5ld keys d%-4ld %8.3f ms %5.1f GB/s  reading %8.3f ms %5.1f GB/s%s\n", key_heads,
              keys, width, step * 1e3, gigabytes / step, read * 1e3, gigabytes / read, sink == 1 ? " " : "");
}

void MeasureDecoding() {
  for (const int64_t keys : {1024, 32768}) MeasureDecoding(1, keys, 128);
  for (const int64_t keys : {128, 512, 4096, 32768}) MeasureDecoding(8, keys, 64);
}

}  // namespace

int main(int argc, char** argv) {
  for (const std::string& target : heed::SupportedTargets()) {
    if (argc > 1 ? target != argv[1] : target == "SCALAR") continue;
    heed::UseTarget(target);
    std::printf("%s\n", target.c_str());
    const auto full = heed::Causal::kNone, causal = heed::Causal::kBottomRight;
    if (argc > 2 && std::string(argv[2]) == "decode") {
      MeasureDecoding();
      continue;
    }
    if (argc > 6) {
      const auto number = [&](int i) { return std::strtol(argv[i], nullptr, 10); };
      Measure({number(2), number(3), number(4), number(5), std::string(argv[6]) == "causal" ? causal : full, 0, 0});
      continue;
    }
    for (const Shape& s : std::vector<Shape>{{1, 2, 2048, 64, full, 0, 0},
                                             {1, 2, 2048, 128, full, 0, 0},
                                             {1, 2, 2048, 32, full, 0, 0},
                                             {1, 4, 512, 64, full, 0, 0},
                                             {1, 4, 512, 64, causal, 0, 0},
                                             {1, 2, 2048, 64, causal, 0, 0},
                                             {4, 12, 128, 64, full, 0, 0},
                                             {16, 4, 32, 32, full, 0, 0},
                                             {12, 4, 64, 32, causal, 0, 0},
                                             {1, 2, 1024, 64, full, 0.1, 0},
                                             {1, 2, 1024, 64, full, 0, 1023}})
      Measure(s);
    MeasureDecoding();
  }
  return 0;
}
