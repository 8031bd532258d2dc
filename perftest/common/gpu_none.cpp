#include "perftest/common/gpu.h"

namespace perftest {

std::string gpu_name() { return "no GPU"; }
std::uint64_t gpu_identity() { return 0; }

}  // namespace perftest
