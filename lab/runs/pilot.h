// A pilot: how long a step of each model of a contest takes on this machine.
#ifndef HEED_LAB_RUNS_PILOT_H_
#define HEED_LAB_RUNS_PILOT_H_

#include <string>
#include <vector>

#include "lab/runs/contest.h"

namespace heed::lab {

// Seconds of a step, in the order of the models and to three digits: what the command that is printed says is what was
// measured. Each model is timed alone, twice with all others in between, and the shorter time counts: what else the machine
// does comes and goes. Measurements that the store holds, where there is one, are not repeated. Progress begins with `what`.
std::vector<double> MeasurePace(const std::string& what, const Contest& contest, bool quiet, const ResultStore* store);

}  // namespace heed::lab

#endif  // HEED_LAB_RUNS_PILOT_H_
