#include "heed/weights.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <new>
#include <optional>
#include <utility>

#include "heed/element.h"
#include "heed/error.h"
#include "heed/safetensors.h"

namespace heed {
namespace {

using Extents = std::vector<int64_t>;

constexpr char kFloat[] = "F32";  // the type of all parameters

bool IsFloating(ElementType element) {
  return element == ElementType::kFloat64 || element == ElementType::kFloat32 || element == ElementType::kFloat16 ||
         element == ElementType::kBFloat16;
}

// Where numbers come from, once everything else about them is known to be right.
struct ReadableSource {
  WeightSource facts;
  std::function<std::vector<float>()> read;
  bool in_range = true;  // once they were read
};
using ReadableSources = std::map<std::string, ReadableSource>;

int64_t Count(const Extents& shape) {
  int64_t count = 1;
  for (const int64_t extent : shape) count *= extent;
  return count;
}

template <class T, class Convert>
std::vector<float> Converted(const std::vector<char>& bytes, const Convert& convert) {
  std::vector<float> numbers(bytes.size() / sizeof(T));
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    T number;
    std::memcpy(&number, bytes.data() + i * sizeof(T), sizeof(T));
    numbers[i] = convert(number);
  }
  return numbers;
}

std::vector<float> ReadFloats(const StoredTensor& stored, bool& in_range) {
  const SafetensorsEntry& entry = *stored.entry;
  try {
    std::vector<char> bytes(static_cast<std::size_t>(entry.end - entry.begin));
    stored.file->Read(entry, bytes.data());
    switch (*entry.type->element) {
      case ElementType::kFloat64:
        return Converted<double>(bytes, [&](double number) {
          const auto narrow = static_cast<float>(number);
          in_range = in_range && (!std::isinf(narrow) || std::isinf(number));
          return narrow;
        });
      case ElementType::kFloat16:
        return Converted<Float16>(bytes, [](Float16 number) { return ToFloat(number); });
      case ElementType::kBFloat16:
        return Converted<BFloat16>(bytes, [](BFloat16 number) { return ToFloat(number); });
      default:
        return Converted<float>(bytes, [](float number) { return number; });
    }
  } catch (const std::bad_alloc&) {
    stored.file->Fail(entry, "no memory for tensor " + QuotedName(entry.name));
  }
}

ReadableSource SourceOf(const StoredTensor& stored) {
  ReadableSource source;
  const SafetensorsEntry& entry = *stored.entry;
  source.facts.facts = {entry.shape, entry.type->name, entry.type->element && IsFloating(*entry.type->element), {}, {}};
  if (!entry.type->element) {
    source.facts.fault = std::string("has the type ") + entry.type->name + ", which heed does not read";
    source.facts.optional = true;
  }
  return source;
}

// The numbers of a matrix of `rows` rows as columns.
std::vector<float> Turned(const std::vector<float>& theirs, int64_t rows) {
  const int64_t columns = rows == 0 ? 0 : static_cast<int64_t>(theirs.size()) / rows;
  std::vector<float> turned(theirs.size());
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < columns; ++c) turned[c * rows + r] = theirs[r * columns + c];
  }
  return turned;
}

std::vector<float> RowsReversed(const std::vector<float>& theirs, int64_t rows) {
  std::vector<float> reversed;
  reversed.reserve(theirs.size());
  const int64_t columns = rows == 0 ? 0 : static_cast<int64_t>(theirs.size()) / rows;
  for (int64_t r = rows; r-- > 0;) {
    reversed.insert(reversed.end(), theirs.begin() + r * columns, theirs.begin() + (r + 1) * columns);
  }
  return reversed;
}

// The numbers of `theirs`, which has the shape `shape`, as heed lays them out.
std::vector<float> InHeed(std::vector<float> theirs, const Extents& shape, Layout layout) {
  if (const std::optional<Third> third = ThirdOf(layout)) {
    if (third->dimension == 1) theirs = Turned(theirs, shape[0]);
    const auto size = static_cast<std::ptrdiff_t>(theirs.size() / 3);
    return {theirs.begin() + size * third->place, theirs.begin() + size * (third->place + 1)};
  }
  switch (layout) {
    case Layout::kTransposed:
    case Layout::kHeadsIn:
      return Turned(theirs, shape[0]);
    case Layout::kHeadsOut:
      return Turned(theirs, shape[0] * shape[1]);
    case Layout::kReversed:
      return RowsReversed(theirs, shape[0]);
    default:
      return theirs;
  }
}

bool SameNumbers(const std::vector<float>& a, const std::vector<float>& b) {
  return std::ranges::equal(a, b, [](float x, float y) { return x == y || (std::isnan(x) && std::isnan(y)); });
}

void Load(const Parameters& parameters, ReadableSources& sources, Framework framework, const std::string& prefix) {
  std::vector<WeightTarget> targets;
  targets.reserve(parameters.list.size());
  for (const Parameter& parameter : parameters.list) {
    targets.push_back({parameter.name, "parameter", {parameter.shape, kFloat, true, {}, {}}, ""});
  }
  std::map<std::string, WeightSource> described;
  for (const auto& [name, source] : sources) described.emplace(name, source.facts);
  const WeightPlan plan = PlanWeights(targets, parameters.attention, described, framework, prefix);
  RefuseFaults(plan.faults, framework);
  std::map<std::size_t, std::vector<float>> staged;  // by target
  std::vector<std::string> faults;
  for (const WeightCopy& copy : plan.copies) {
    const WeightTarget& target = targets[copy.target];
    if (copy.source.empty()) {
      staged.emplace(copy.target, std::vector<float>(static_cast<std::size_t>(Count(target.facts.shape))));
      continue;
    }
    ReadableSource& source = sources.at(copy.source);
    std::vector<float> numbers = InHeed(source.read(), source.facts.facts.shape, copy.layout);
    if (!source.in_range) {
      faults.push_back("source '" + ShownName(copy.source) + "' holds numbers beyond the range of " + kFloat +
                       ", the type of parameter '" + target.name + "'");
    }
    const auto earlier = staged.find(copy.target);
    if (earlier == staged.end()) {
      staged.emplace(copy.target, std::move(numbers));
    } else if (!SameNumbers(earlier->second, numbers)) {
      faults.push_back("parameter '" + target.name + "' has two sources that differ, one of them '" + ShownName(copy.source) +
                       "'");
    }
  }
  RefuseFaults(faults, framework);
  for (const auto& [target, numbers] : staged) parameters.list[target].assign(numbers);
}

}  // namespace

void Parameters::Add(const std::string& name, Parameters inner) {
  for (Parameter& parameter : inner.list) {
    parameter.name = name + "." + parameter.name;
    list.push_back(std::move(parameter));
  }
  for (AttentionHeads& heads : inner.attention) {
    heads.path = heads.path.empty() ? name : name + "." + heads.path;
    attention.push_back(std::move(heads));
  }
}

void LoadWeights(const Parameters& parameters, const std::string& path, Framework framework, const std::string& prefix) {
  ReadableSources sources;
  for (const auto& [name, stored] : OpenTensors(path)) {
    ReadableSource& source = sources[name] = SourceOf(stored);
    source.read = [stored = stored, &source] { return ReadFloats(stored, source.in_range); };
  }
  try {
    Load(parameters, sources, framework, prefix);
  } catch (const InvalidArgument& error) {
    throw InvalidArgument("'" + path + "': " + error.what());
  }
}

void LoadWeights(const Parameters& parameters, const std::map<std::string, Array>& arrays, Framework framework,
                 const std::string& prefix) {
  ReadableSources sources;
  for (const auto& [name, array] : arrays) {
    const std::string who = "source '" + ShownName(name) + "'";
    if (!IsTensorName(name)) throw InvalidArgument(who + ": a name of 1 to 1024 bytes without NUL is expected");
    for (const int64_t extent : array.shape) {
      if (extent < 0) throw InvalidArgument(who + ": extents must not be negative");
    }
    if (Count(array.shape) != static_cast<int64_t>(array.values.size())) {
      throw InvalidArgument(who + ": its shape holds " + std::to_string(Count(array.shape)) + " numbers, its values are " +
                            std::to_string(array.values.size()));
    }
    ReadableSource& source = sources[name];
    source.facts.facts = {array.shape, kFloat, true, {}, {}};
    source.read = [values = array.values] { return std::vector<float>(values.begin(), values.end()); };
  }
  Load(parameters, sources, framework, prefix);
}

}  // namespace heed
