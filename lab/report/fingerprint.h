// A short name for contents.
#ifndef HEED_LAB_REPORT_FINGERPRINT_H_
#define HEED_LAB_REPORT_FINGERPRINT_H_

#include <string>
#include <string_view>

namespace heed::lab {

// FNV-1a, 64 bits, of the bytes of both, as 16 hexadecimal digits. It tells contents apart that nobody made to look alike.
std::string Fingerprint(std::string_view bytes, std::string_view more = {});

}  // namespace heed::lab

#endif  // HEED_LAB_REPORT_FINGERPRINT_H_
