// Data for a kept model, a part at a time: files may be larger than memory.
#ifndef HEED_LAB_SERIES_STREAM_H_
#define HEED_LAB_SERIES_STREAM_H_

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lab/series/csv_sequences.h"
#include "lab/series/data.h"
#include "lab/series/kept_model.h"

namespace heed::lab {

class SeriesStream {
 public:
  virtual ~SeriesStream() = default;
  // The next part, for Predict; nothing at the end. Throws FileError that names the columns which are not there or the place of
  // a value, and Interruption on Ctrl-C.
  virtual std::optional<SeriesData> Next() = 0;
  virtual int64_t size() const = 0;  // bytes of the file; 0 where nobody knows
  virtual int64_t read() const = 0;  // of them
  // Sentences on what stood for cells of the parts so far, see LaterCells.
  virtual std::vector<std::string> Notes() const { return {}; }
};

inline constexpr int64_t kBlockBytes = int64_t{1} << 20;

// A CSV file, or standard input where the path is "-": columns are found by their names, others are not looked at, and of a
// forecast the target is read too. About `block` bytes are held at once, the id of each sequence, and of a sequence that goes
// on as many steps as the model reads. A file whose sequences do not stand together is read whole, and so is any file for
// Holt-Winters and a calendar, which look at all histories; what gzip compressed is unpacked block by block; FileError names
// the limit, and on standard input of more than `block` bytes the row where a sequence comes back.
std::unique_ptr<SeriesStream> CsvStream(const KeptModel& model, const std::filesystem::path& path, const LaterCsv& csv = {},
                                        int64_t block = kBlockBytes);
// Whether a method answers a sequence from all others too, or from all of its history.
bool LooksAtAll(const KeptModel& model);
// Steps at the end of a sequence that the answer of any other may depend on: those of a window and the one before, or a season.
int64_t StepsNeeded(const KeptModel& model);

struct SequenceSteps {
  std::string id;
  int64_t steps;
  std::optional<int64_t> before = {};  // those that are not scored, where they were counted
};
struct LabelledStream {
  std::unique_ptr<SeriesStream> stream;
  // Of a forecast, of each sequence by its first row; absent where one part has all of the file.
  std::optional<std::vector<SequenceSteps>> steps = {};
};
// The same file; `scores`: with targets, where parts hold what scores depend on: of each sequence that has one answer the last
// steps that a model reads; where steps have answers all of them, as for Predict; of a forecast all of them, where `before` of
// a sequence were in the part before too, as many as an answer may look at and foretell. Throws FileError, beside what
// CsvStream does, for targets that are no class of the model, or that differ within a sequence which has one answer. at_once:
// one part has all of the file.
LabelledStream OpenCsv(const KeptModel& model, const std::filesystem::path& path, const LaterCsv& csv, int64_t block,
                       bool scores, bool at_once);
// X.npy of [rows, steps, features], or [rows, steps] of one feature, NaN where the model knows gaps; a forecast's target must
// be one of them, and a model that reads texts is refused. About `block` bytes are held at once, at least a row.
std::unique_ptr<SeriesStream> NpyStream(const KeptModel& model, const std::filesystem::path& path, int64_t block = kBlockBytes);

}  // namespace heed::lab

#endif  // HEED_LAB_SERIES_STREAM_H_
