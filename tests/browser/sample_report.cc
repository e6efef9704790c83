// A report with a figure of every kind and with text that must be escaped: sample_report DIRECTORY
#include <cmath>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <string>
#include <utility>
#include <variant>

#include "book/positions/positions.h"
#include "lab/report/page.h"

namespace heed::lab {
namespace {

// Five runs that fall at different rates, with a spread; the last has a value missing.
LinePlot Losses() {
  LinePlot plot{"Step", "Validation loss (nats)", false, true, {}};
  for (const char* name : {"self-attention", "convolution <k=3>", "rnn", "gru & lstm", "\"none\" 5 %"}) {
    Series series{name, {}, {}, {}, {}};
    const double rate = 60 + 20 * static_cast<double>(plot.series.size());
    for (int step = 0; step <= 400; step += 25) {
      const double loss = 1.8 + 2.4 * std::exp(-step / rate);
      series.x.push_back(step);
      series.y.push_back(plot.series.size() == 4 && step == 200 ? NAN : loss);
      series.low.push_back(loss - 0.1);
      series.high.push_back(loss + 0.1);
    }
    plot.series.push_back(std::move(series));
  }
  return plot;
}

// More series than colours, with long names and lengths for ticks.
LinePlot Times() {
  LinePlot plot{"Length", "Milliseconds", true, true, {}};
  for (int kind = 0; kind < 9; ++kind) {
    Series series{"self-attention, relative_bias {" + std::to_string(kind) + "}", {}, {}, {}, {}};
    for (int length = 16; length <= 1024; length *= 2) {
      series.x.push_back(length);
      series.y.push_back(1e-3 * std::pow(length, 1 + 0.1 * kind));
    }
    plot.series.push_back(std::move(series));
  }
  return plot;
}

Diagram FiveTokens() {
  Diagram diagram;
  for (int layer = 0; layer < 2; ++layer) {
    for (int token = 0; token < 5; ++token) {
      diagram.nodes.push_back(
          {static_cast<double>(token), static_cast<double>(layer), (layer == 0 ? "x" : "h") + std::to_string(token + 1)});
    }
  }
  for (int from = 0; from < 5; ++from) {
    for (int to = 5; to < 10; ++to) diagram.arrows.push_back({from, to});
  }
  return diagram;
}

BarChart Bars(bool long_names) {
  const std::string suffix = long_names ? " with a learned position and a long name" : "";
  return {"Perplexity",
          {{"rnn" + suffix, 6.1, 5.9, 6.4},
           {"gru" + suffix, 5.8, 5.7, 5.9},
           {"lstm" + suffix, NAN, NAN, NAN},
           {"100 %", 5.9, 5.5, 6}}};
}

void WriteSample(const std::filesystem::path& directory) {
  Page page("A sample & its <figures>", directory, {}, {});
  const auto add = [&](const char* name, std::variant<LinePlot, HeatMap, BarChart, Diagram> content) {
    Figure figure;
    figure.name = name;
    figure.title = std::string("Figure of kind ") + name;
    figure.caption = "What <to> see & where.";
    figure.command = "sample_report \"DIRECTORY\"";
    figure.seeds = "seeds 1 & 2";
    figure.content = std::move(content);
    page.Show(figure);
  };
  page.Section("Positions");
  page.Say("The figures of the positional encoding.");
  for (Figure& figure : PositionFigures({})) {
    figure.command = CommandOf(PositionsOptions(), directory);
    page.Show(figure);
  }
  page.Section("Every kind of figure");
  add("losses", Losses());
  add("times", Times());
  add("bars", Bars(false));
  add("bars-long", Bars(true));
  add("diagram", FiveTokens());
  page.Section("A wide table");
  Table table{"More columns than a narrow window shows", {}, {{}, {}}};
  for (int column = 0; column < 16; ++column) {
    table.header.push_back("column " + std::to_string(column));
    table.rows[0].push_back("1.88 ± 0.01");
    table.rows[1].push_back("n/a");
  }
  page.Show(table);
  page.Write();
}

}  // namespace
}  // namespace heed::lab

int main(int argc, char** argv) {
  if (argc != 2) return std::fputs("usage: sample_report DIRECTORY\n", stderr), 2;
  try {
    heed::lab::WriteSample(argv[1]);
  } catch (const std::exception& error) {
    return std::fprintf(stderr, "%s\n", error.what()), 1;
  }
  return 0;
}
