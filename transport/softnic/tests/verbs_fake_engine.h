// The interface of tests to the fake engine.
#pragma once

#include "transport/softnic/engine.h"

#include <string>
#include <vector>

namespace verbs_test {

/// The attributes of its device; a test may change them and restores them.
gshmem::soft::DeviceAttributes& fake_device();
/// Calls with all their arguments, one per line, while a test records them.
extern std::vector<std::string>* told;

}  // namespace verbs_test
