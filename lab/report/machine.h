// The machine of this process, for notes beside measurements.
#ifndef HEED_LAB_REPORT_MACHINE_H_
#define HEED_LAB_REPORT_MACHINE_H_

#include <string>

namespace heed::lab {

// The processor's own name as Linux tells it; "unknown" elsewhere.
std::string ProcessorName();

// The processor and how many threads of it this process may use: "AMD EPYC 9B14, 2 threads".
std::string MachineName();

}  // namespace heed::lab

#endif  // HEED_LAB_REPORT_MACHINE_H_
