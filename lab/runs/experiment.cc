#include "lab/runs/experiment.h"

#include <cmath>
#include <utility>

#include <fmt/core.h>

#include "heed/error.h"
#include "lab/runs/run.h"

namespace heed::lab {
namespace {

using Json = nlohmann::ordered_json;

Json ToJson(const Outcome& outcome) {
  Json values = Json::array();
  for (const double value : outcome.values) values.push_back(std::isfinite(value) ? Json(value) : Json(nullptr));
  return {{"values", std::move(values)}, {"more", outcome.more}};
}

Outcome OutcomeFromJson(const Json& json) {
  Outcome outcome{{}, json.at("more")};
  for (const Json& value : json.at("values")) outcome.values.push_back(value.is_null() ? NAN : value.get<double>());
  return outcome;
}

// Throws where a number is missing that every model has; findings count on it, and a kept file may hold anything.
void RequireWhole(const Part& part, const std::vector<double>& values) {
  for (std::size_t i = 0; i < part.columns.size(); ++i) {
    if (values.size() != part.columns.size() || (!part.columns[i].optional && !std::isfinite(values[i]))) {
      throw InvalidArgument("the result is not whole: " + part.columns[i].measure.name);
    }
  }
}

// "parity, GRU: 0.98": the first number that there is.
std::string Note(const Part& part, const Contender& model, const std::vector<double>& values) {
  std::string note = (part.id.empty() ? "" : part.id + ", ") + model.Label();
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (std::isfinite(values[i])) return note + ": " + part.columns[i].measure.Text(values[i]);
  }
  return note;
}

// What it refers to must outlive it.
Run RunOf(const Part& part, std::size_t m, uint64_t seed, std::size_t s, Measurements& measured) {
  const SizedContender& model = part.models[m];
  Run run;
  run.name = fmt::format("{}{}{}-seed-{}", part.id, part.id.empty() ? "" : "-", model.Id(), seed);
  run.settings = {{"encoder", model.encoder},
                  {"position", model.position},
                  {"ffn_width", model.ffn_width},
                  {"steps", part.steps},
                  {"seed", seed}};
  run.settings.update(part.settings);
  run.work = part.steps;
  run.timed = part.timed;
  run.compute = [&part, &model, seed](const OnWork& on_work) {
    return ToJson(part.train(model, seed, [&on_work] { on_work(1); }));
  };
  run.take = [&part, &model, &measured, m, s](const Json& json) {
    Outcome outcome = OutcomeFromJson(json);
    RequireWhole(part, outcome.values);
    if (part.check) part.check(outcome.more);
    std::string note = Note(part, model, outcome.values);
    measured.Put(m, s, std::move(outcome));
    return note;
  };
  return run;
}

}  // namespace

std::vector<Measurements> RunParts(const std::string& what, const std::vector<Part>& parts, const Conduct& conduct,
                                   const ResultStore* store) {
  std::vector<Measurements> measured;
  measured.reserve(parts.size());  // runs refer to them
  std::vector<Run> runs;
  for (const Part& part : parts) {
    const int64_t seeds = part.seeds > 0 ? part.seeds : conduct.seeds;
    measured.emplace_back(part.id, part.columns, part.models, conduct.seed, seeds);
    for (std::size_t m = 0; m < part.models.size(); ++m) {
      for (int64_t s = 0; s < seeds; ++s) {
        const auto index = static_cast<std::size_t>(s);
        runs.push_back(RunOf(part, m, conduct.seed + index, index, measured.back()));
      }
    }
  }
  DoRuns(what, runs, store, conduct.threads, conduct.quiet);
  return measured;
}

}  // namespace heed::lab
