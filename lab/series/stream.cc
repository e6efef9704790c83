#include "lab/series/stream.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include <fmt/core.h>
#include <fmt/ranges.h>

#include "heed/error.h"
#include "heed/input_file.h"
#include "heed/safetensors.h"
#include "lab/report/file.h"
#include "lab/series/csv_sequences.h"
#include "lab/series/form.h"
#include "lab/series/npy_file.h"
#include "lab/training/interrupt.h"

namespace heed::lab {
namespace {

const std::string kOneSequence = "all";  // the id of one that no column names

// Data of this form, without sequences yet.
SeriesData Unread(const SeriesForm& form, const std::string& name) { return {form, name, {}, {}}; }

// Places of the form's columns in a table, and of the target where it is read. Throws FileError that names all that is missing.
SequenceColumns PlacesIn(const CsvTable& table, const SeriesForm& form, bool with_targets) {
  std::vector<std::string> missing;
  const auto column = [&](const std::string& name) -> int64_t {
    if (name.empty()) return -1;
    const auto found = std::ranges::find(table.columns(), name);
    const std::string shown = "'" + ShownName(name) + "'";
    if (found == table.columns().end() && std::ranges::find(missing, shown) == missing.end()) missing.push_back(shown);
    return found - table.columns().begin();
  };
  SequenceColumns places{.sequence = column(form.sequence), .time = column(form.time)};
  for (const std::string& name : form.features) places.features.push_back(column(name));
  for (const std::string& name : form.marks.Categories()) places.texts.push_back(column(name));
  if (form.Forecasts() || with_targets) places.target = column(form.target);
  if (missing.empty()) return places;
  throw FileError(fmt::format("{}: the model reads {}, which the file lacks; the file has {}", table.name(),
                              fmt::join(missing, ", "), fmt::join(table.columns(), ", ")));
}

// A sequence that has one answer has one target.
void RequireTarget(const SeriesData& data, const SeriesSequence& sequence, int64_t step, double target) {
  if (sequence.targets[step] == target) return;
  throw FileError(data.Place(sequence, step, data.target) +
                  "it differs from the row before; the model has one answer a sequence");
}

// Of data whose sequences have one target each; keeps that one.
void RequireOneTarget(SeriesData& data) {
  for (SeriesSequence& sequence : data.sequences) {
    for (int64_t step = 1; step < sequence.steps; ++step) RequireTarget(data, sequence, step, sequence.targets[0]);
    sequence.targets.resize(1);
  }
}

// What a file yields, or standard input, about `block` bytes at a time.
class Bytes {
 public:
  Bytes(const std::filesystem::path& path, int64_t block) : block_(block), unpacker_(NameOfInput(path)) {
    if (path != "-") file_.emplace(path.string());
  }

  int64_t size() const { return file_ ? file_->size() : 0; }
  int64_t read() const { return read_; }

  // Whether others may follow those that are appended.
  bool Append(std::string& bytes) {
    bool more = true;
    for (const int64_t end = read_ + block_; more && read_ < end;) {
      if (Interrupted()) throw Interruption("interrupted while data were read");
      const int64_t left = std::min(end - read_, kBlockBytes);
      const int64_t count = file_ ? std::min(left, file_->size() - read_) : left;
      std::string block(static_cast<std::size_t>(count), '\0');
      block.resize(static_cast<std::size_t>(ReadInto(block.data(), count)));
      read_ += std::ssize(block);
      more = file_ ? read_ < file_->size() : !block.empty();
      unpacker_.Append(block, /*last=*/!more, bytes);
    }
    return more;
  }

 private:
  int64_t ReadInto(char* bytes, int64_t count) const {
    if (file_) return file_->Read(read_, count, bytes), count;
    pollfd input{STDIN_FILENO, POLLIN, 0};
    while (::poll(&input, 1, /*milliseconds=*/100) <= 0) {
      if (Interrupted()) throw Interruption("interrupted while data were read");
    }
    const ssize_t got = ::read(STDIN_FILENO, bytes, static_cast<std::size_t>(count));
    if (got < 0) throw FileError("standard input cannot be read");
    return got;
  }

  std::optional<InputFile> file_;
  int64_t block_, read_ = 0;
  Unpacker unpacker_;
};

// scores: whether targets are read too, and not what answers depend on alone.
class CsvSeries : public SeriesStream {
 public:
  CsvSeries(const KeptModel& model, const std::filesystem::path& path, const LaterCsv& csv, int64_t block, bool scores)
      : form_(model.form),
        scores_(scores),
        needed_(StepsNeeded(model)),
        name_(NameOfInput(path)),
        bytes_(path, block),
        blocks_(
            name_, [this](std::string& bytes) { return bytes_.Append(bytes); }, csv),
        later_(csv) {}

  int64_t size() const override { return bytes_.size(); }
  int64_t read() const override { return bytes_.read(); }
  std::vector<std::string> Notes() const override { return later_.Notes(); }

  std::optional<SeriesData> Next() override {
    SeriesData part = Unread(form_, name_);
    while (part.sequences.empty() && !ended_) {
      const std::optional<CsvTable> table = blocks_.Next();
      ended_ = blocks_.AtEnd();
      if (table) Take(*table, part);
      if (ended_ && open_) part.sequences.push_back(*std::exchange(open_, std::nullopt));
    }
    if (part.sequences.empty()) return std::nullopt;
    return part;
  }

 private:
  // What a block ends or answers goes into the part.
  void Take(const CsvTable& table, SeriesData& part) {
    if (!columns_) columns_ = PlacesIn(table, form_, /*with_targets=*/scores_);
    SeriesData fresh = Unread(form_, table.name());
    fresh.sequences = SequencesOf(table, *columns_, fresh, &later_);
    for (SeriesSequence& sequence : fresh.sequences) {
      if (open_ && sequence.id == open_->id)
        fresh.CarryForward(sequence, &open_->features[(open_->steps - 1) * fresh.numbers()]);
    }
    if (scores_ && !form_.each_step) RequireOneTarget(fresh);
    RequireMagnitudes(fresh), RequireStandardised(fresh, form_);
    const int64_t column = columns_->sequence;
    const std::string last = column < 0 ? kOneSequence : table.Text(table.rows() - 1, column);
    std::optional<SeriesSequence> goes_on;
    if (open_ && !Continues(fresh)) part.sequences.push_back(*std::exchange(open_, std::nullopt));
    for (SeriesSequence& sequence : fresh.sequences) {
      if (open_ && sequence.id == open_->id) {
        sequence = *std::exchange(open_, std::nullopt);
      } else if (!seen_.insert(sequence.id).second) {
        throw FileError(fmt::format(
            "{}: row {}: sequence '{}' comes back after others; of data from standard input of more than {} bytes the rows of "
            "a sequence must stand together: sort them by '{}', or give a file",
            table.name(), sequence.rows.front(), ShownName(sequence.id), kBlockBytes, ShownName(form_.sequence)));
      }
      if (sequence.id == last && !ended_) {
        goes_on = std::move(sequence);
      } else {
        part.sequences.push_back(std::move(sequence));
      }
    }
    open_ = std::move(goes_on);
    if (open_) Shorten(part);
  }

  // Whether the block holds more of the open sequence, which then has it.
  bool Continues(const SeriesData& fresh) {
    const auto more = std::ranges::find(fresh.sequences, open_->id, &SeriesSequence::id);
    if (more == fresh.sequences.end()) return false;
    if (form_.has_times && more->times.front() <= open_->times.back())
      throw FileError(fresh.Place(*more, 0, form_.time) + "times of a sequence must increase from row to row");
    const auto append = [](auto& to, const auto& from) { to.insert(to.end(), from.begin(), from.end()); };
    append(open_->features, more->features), append(open_->times, more->times);
    append(open_->rows, more->rows);
    if (form_.each_step) {
      append(open_->targets, more->targets);
    } else if (scores_) {
      RequireTarget(fresh, *more, 0, open_->targets[0]);
    }
    open_->steps += more->steps;
    return true;
  }

  // Gives what can be answered of the open sequence to the part, and forgets steps that no later answer depends on.
  void Shorten(SeriesData& part) {
    int64_t kept = needed_;
    if (scores_ && form_.Forecasts()) {
      kept += form_.horizon;
      part.sequences.push_back(*open_);
      part.sequences.back().goes_on = true;
      open_->before = open_->steps;
    } else if (form_.each_step && !form_.Forecasts()) {
      const int64_t longest = form_.longest, answered = open_->before;
      while (open_->before < open_->steps - longest) open_->before += longest;
      kept = open_->steps - std::max<int64_t>(0, open_->before - longest - 1);
      if (open_->before > answered) {
        part.sequences.push_back(*open_);
        part.sequences.back().before = answered, part.sequences.back().goes_on = true;
      }
    }
    const int64_t forgotten = std::max<int64_t>(0, open_->steps - kept);
    const int64_t before = std::max<int64_t>(0, open_->before - forgotten);
    open_ = open_->Part(forgotten, open_->steps, form_.numbers());
    open_->before = before;
  }

  SeriesForm form_;
  bool scores_;
  int64_t needed_;
  std::string name_;
  Bytes bytes_;
  CsvBlocks blocks_;
  LaterCells later_;
  std::optional<SequenceColumns> columns_;
  std::unordered_set<std::string> seen_;  // ids
  std::optional<SeriesSequence> open_;    // whose rows may go on
  bool ended_ = false;
};

// Whether no sequence comes back after another one. Where `steps` is not null, it has those of each sequence by its first row.
bool StandTogether(const SeriesForm& form, const std::filesystem::path& path, const CsvOptions& csv, int64_t block,
                   std::vector<SequenceSteps>* steps) {
  Bytes bytes(path, block);
  CsvBlocks blocks(
      NameOfInput(path), [&](std::string& to) { return bytes.Append(to); }, csv);
  std::unordered_set<std::string> seen;
  std::string last;
  while (const std::optional<CsvTable> table = blocks.Next()) {
    const int64_t column = PlacesIn(*table, form, /*with_targets=*/false).sequence;
    for (int64_t row = 0; row < table->rows(); ++row) {
      const std::string& id = column < 0 ? kOneSequence : table->Text(row, column);
      if (id != last) {
        if (!seen.insert(id).second) return false;
        last = id;
        if (steps != nullptr) steps->push_back({id, 0});
      }
      if (steps != nullptr) ++steps->back().steps;
    }
  }
  return true;
}

class NpySeries : public SeriesStream {
 public:
  NpySeries(const KeptModel& model, const std::filesystem::path& path, int64_t block)
      : form_(model.form), file_(path, /*may_lack=*/true) {
    const std::vector<int64_t>& shape = file_.shape();
    const int64_t columns = std::ssize(form_.features);
    if (form_.marks.texts() > 0)
      throw FileError(fmt::format("{}: the model reads texts in '{}', which an array has not; give a CSV file", file_.name(),
                                  ShownName(form_.marks.category_columns.front())));
    const bool one = columns == 1 && shape.size() == 2;
    if (form_.has_times || std::ranges::find(shape, 0) != shape.end() || (!one && (shape.size() != 3 || shape[2] != columns))) {
      throw FileError(fmt::format("{}: the model reads {}, got an array of [{}]", file_.name(),
                                  form_.has_times ? "times, which an array has not" : fmt::format("[rows, steps, {}]", columns),
                                  fmt::join(shape, ", ")));
    }
    if (form_.Forecasts() && std::ranges::find(form_.features, form_.target) == form_.features.end())
      throw FileError(
          fmt::format("{}: the target '{}' is none of the model's features, which alone an array has; give a CSV file",
                      file_.name(), ShownName(form_.target)));
    row_bytes_ = shape[1] * columns * static_cast<int64_t>(sizeof(double));
    at_once_ = LooksAtAll(model) ? shape[0] : std::max<int64_t>(1, block / row_bytes_);
  }

  int64_t size() const override { return file_.shape()[0] * row_bytes_; }
  int64_t read() const override { return next_ * row_bytes_; }
  std::vector<std::string> Notes() const override { return later_.Notes(file_.shape()[1]); }

  std::optional<SeriesData> Next() override {
    const int64_t steps = file_.shape()[1], columns = std::ssize(form_.features);
    const int64_t end = std::min(file_.shape()[0], next_ + at_once_);
    if (next_ == end) return std::nullopt;
    const std::vector<double> values = file_.Rows(next_, end);
    SeriesData data = Unread(form_, file_.name());
    for (const double* row = values.data(); next_ < end; ++next_, row += steps * columns)
      data.sequences.push_back(SequenceOf(data, next_, steps, row, &later_));
    return data;
  }

 private:
  SeriesForm form_;
  NpyFile file_;
  LaterCells later_ = LaterCells(LaterCsv());
  int64_t row_bytes_, at_once_, next_ = 0;
};

}  // namespace

bool LooksAtAll(const KeptModel& model) { return model.method.kind == "calendar" || model.method.kind == "smoothing"; }

int64_t StepsNeeded(const KeptModel& model) {
  constexpr int64_t kMostSeason = int64_t{1} << 20;
  const auto season = model.method.settings.find("season");
  const bool whole = season != model.method.settings.end() && season->is_number_integer();
  return std::max(model.form.steps() + 1, whole ? std::clamp<int64_t>(season->get<int64_t>(), 0, kMostSeason) : 0);
}

LabelledStream OpenCsv(const KeptModel& model, const std::filesystem::path& path, const LaterCsv& csv, int64_t block,
                       bool scores, bool at_once) {
  Validate(csv);
  LabelledStream labelled;
  const bool input = path == "-", counts = scores && model.form.Forecasts();
  bool whole = at_once || LooksAtAll(model) || (input && counts);
  // Nobody knows how much is compressed until it is read.
  if (!input && !IsCompressed(path) && InputFile(path.string()).size() <= block) whole = true;
  if (!whole && !input && (counts || !model.form.sequence.empty())) {
    if (counts) labelled.steps.emplace();
    whole = !StandTogether(model.form, path, csv, block, counts ? &*labelled.steps : nullptr);
  }
  if (whole && !input) InputFile(path.string(), MostDataBytes());
  if (whole) block = MostDataBytes() + 1, labelled.steps.reset();
  labelled.stream = std::make_unique<CsvSeries>(model, path, csv, block, scores);
  return labelled;
}

std::unique_ptr<SeriesStream> CsvStream(const KeptModel& model, const std::filesystem::path& path, const LaterCsv& csv,
                                        int64_t block) {
  return OpenCsv(model, path, csv, block, /*scores=*/false, /*at_once=*/false).stream;
}

std::unique_ptr<SeriesStream> NpyStream(const KeptModel& model, const std::filesystem::path& path, int64_t block) {
  return std::make_unique<NpySeries>(model, path, block);
}

}  // namespace heed::lab
