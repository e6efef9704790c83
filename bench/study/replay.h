// A contest whose trainings stand on record.
#ifndef HEED_BENCH_STUDY_REPLAY_H_
#define HEED_BENCH_STUDY_REPLAY_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "bench/study/record.h"

namespace heed::bench {

// What a study of a record draws by chance: in which order the recorded runs stand for a model's seeds, from the first again
// where there are more seeds, because two seeds with one run would seem to have no spread; and, with replacement, which blocks
// of the validation and of the test part there are. The truth about a model is then its mean over all runs and blocks
// on record. Without a seed nothing is drawn: seeds and blocks are those on record, and a study is the one that ran.
class RecordedContest : public lab::Contest {
 public:
  // `record` must outlive it.
  RecordedContest(const Record& record, std::optional<uint64_t> seed);

  std::unique_ptr<lab::Training> Begin(const lab::Trial& trial) const override;
  double StepSeconds(const lab::SizedContender& model) const override;

  // The losses of a baseline, or of the truth, on the blocks that were drawn.
  std::vector<double> Drawn(const std::vector<double>& blocks) const;

 private:
  const Record& record_;
  std::optional<uint64_t> seed_;
  std::vector<std::size_t> blocks_, validation_blocks_;
};

// The mean over all recorded runs and blocks of each model's best state within `share` of a whole training, at the rate with
// the longest runs; NaN where a model has none.
std::vector<double> TruthOf(const Record& record, double share);

}  // namespace heed::bench

#endif  // HEED_BENCH_STUDY_REPLAY_H_
