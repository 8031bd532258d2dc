// A libpmix that does what a test says, and notes what it was asked. Included by the double and by
// its test, which are in one process.
#pragma once

#include <pmix.h>

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

namespace gshmem::test {

struct PmixDouble {
  std::uint32_t size = 2;              ///< of the job, in which this process is rank 0
  pmix_status_t sized = PMIX_SUCCESS;  ///< of the answer with the size
  /// What rank 1 has put under every key; rank 0's is what it has put itself.
  std::vector<char> theirs{1};
  pmix_status_t fence = PMIX_SUCCESS, get = PMIX_SUCCESS;  ///< get: of rank 1's data
  pmix_data_type_t type = PMIX_BYTE_OBJECT;                ///< of rank 1's data
  bool of_another_key = false, is_short = false;           ///< rank 1's data
  bool is_nothing = false;  ///< a success without a value, for rank 1's data
  bool calls_back = true;   ///< a fence; else its status is what the call returns
  bool is_late = false;     ///< rank 1's data is not there before pmix_double_answers
  bool fence_is_late = false;
  bool aborts = true;        ///< else the call does not return
  int* finalizes = nullptr;  ///< where they are counted, if they are

  std::string version = "double";  ///< before the first join
  std::string store;               ///< PMIX_MCA_gds at PMIx_Init

  int fences = 0;
  bool collects = false;  ///< the last fence
  int seconds = -1;       ///< of the last fence; -1 = no limit
  std::vector<std::string> keys;
  std::atomic<int> code{0};
  std::string message;  ///< before `code`
};

}  // namespace gshmem::test

/// The one of this process.
extern "C" gshmem::test::PmixDouble* pmix_double();
/// Calls back for what is late. False when what the call passed by address is not there any more.
extern "C" bool pmix_double_answers();
/// False when nobody is to hear of it.
extern "C" bool pmix_double_loses_its_server();
