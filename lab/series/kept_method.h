// The arrays of a fitted method, as files keep them.
#ifndef HEED_LAB_SERIES_KEPT_METHOD_H_
#define HEED_LAB_SERIES_KEPT_METHOD_H_

#include <map>
#include <string>

#include <ATen/core/Tensor.h>
#include <nlohmann/json.hpp>

namespace heed::lab {

struct KeptMethod {
  // "simple", which looks at no features; "linear" and "neighbours", which answer rows of SeriesRows; "season", "smoothing" and
  // "calendar", which forecast from past values. Empty: it cannot be kept.
  std::string kind = {};
  nlohmann::ordered_json settings = nlohmann::ordered_json::object();
  std::map<std::string, at::Tensor> arrays = {};
};

// What VisitFields visits of heed::SeriesForm, or of a method of heed/past_forecasts.h, as files keep it.
template <class T>
nlohmann::ordered_json KeptFields(T of) {
  nlohmann::ordered_json fields;
  VisitFields(of, [&](const char* name, const auto& field) { fields[name] = field; });
  return fields;
}

}  // namespace heed::lab

#endif  // HEED_LAB_SERIES_KEPT_METHOD_H_
