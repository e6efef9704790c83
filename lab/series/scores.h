// Scores a saved model on data with known targets.
#ifndef HEED_LAB_SERIES_SCORES_H_
#define HEED_LAB_SERIES_SCORES_H_

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "lab/series/kept_model.h"
#include "lab/series/stream.h"

namespace heed::lab {

struct SeriesScores {
  int64_t answers = 0;                                  // classes or values that were scored
  std::vector<std::pair<std::string, double>> numbers;  // by name, in the order in which they are told
  std::vector<std::string> notes = {};                  // see SeriesStream::Notes
};

// Of a CSV file with targets, or standard input where the path is "-", read as CsvStream reads one, about `block` bytes at a
// time. All sequences are scored, of each the answers that Predict gives; of a forecast the values in the last
// `share` of each, between 0 and 1, from at most 512 windows, as a study scores its test part: methods see what comes before
// it, and windows that foretell a missing value are not scored. With `from`, a date, a time or a row of the file as people
// write it, the steps from it on are scored in place of a share, and those before it are the past that they are answered from.
// Throws InvalidArgument that names `from` where it is none of these, where the file has nothing before it or nothing from it
// on, and of a model that has one answer a sequence. A file of forecasts is read twice, first to count the steps of
// its sequences, and standard input of forecasts is read whole. What grows with the file is the id of each sequence, and what
// scores of classes keep. on_bytes hears how many bytes are read, of how many; 0 where nobody knows. Throws FileError that
// names what is too short or cannot be computed with, and Interruption on Ctrl-C.
SeriesScores ScoresOfCsv(const KeptModel& model, const std::filesystem::path& path, double share, const LaterCsv& csv = {},
                         const std::function<void(int64_t done, int64_t of)>& on_bytes = {}, int64_t block = kBlockBytes,
                         const std::string& from = {});

}  // namespace heed::lab

#endif  // HEED_LAB_SERIES_SCORES_H_
