// What tests say to the engine that is none, and hear of it.
#pragma once

#include "transport/softnic/engine.h"

#include <string>
#include <vector>

namespace verbs_test {

/// The device that it says it is; to be changed and put back by a test.
gshmem::soft::DeviceAttributes& fake_device();
/// Calls with all that they were told, one a line, while a test listens.
extern std::vector<std::string>* told;

}  // namespace verbs_test
