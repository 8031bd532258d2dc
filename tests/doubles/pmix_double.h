// A libpmix that a test controls, and that records its calls. Included by the double and by its
// test, which are in one process.
#pragma once

#include <pmix.h>

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

namespace gshmem::test {

struct PmixDouble {
  std::uint32_t size = 2;              ///< number of ranks; this process is rank 0
  pmix_status_t sized = PMIX_SUCCESS;  ///< status of the answer with the size
  /// The data of rank 1 under every key; rank 0's data is what it has put itself.
  std::vector<char> theirs{1};
  pmix_status_t fence = PMIX_SUCCESS, get = PMIX_SUCCESS;  ///< get: for rank 1's data
  pmix_data_type_t type = PMIX_BYTE_OBJECT;                ///< for rank 1's data
  bool of_another_key = false, is_short = false;           ///< rank 1's data
  bool is_nothing = false;  ///< a success without a value, for rank 1's data
  bool calls_back = true;   ///< for a fence; otherwise the call returns its status
  bool is_late = false;     ///< rank 1's data arrives at pmix_double_answers
  bool fence_is_late = false;
  bool has_mine = true;      ///< the server has the data of rank 0
  bool aborts = true;        ///< otherwise the call does not return
  int* finalizes = nullptr;  ///< their counter, or null

  std::string version = "double";  ///< before the first join
  std::string store;               ///< PMIX_MCA_gds at PMIx_Init

  int fences = 0;
  bool collects = false;  ///< for the last fence
  int seconds = -1;       ///< for the last fence; -1 = no limit
  int get_seconds = -1;   ///< for the last get; -1 = no limit
  std::vector<std::string> keys;
  std::atomic<int> code{0};
  std::string message;  ///< written before `code`
};

}  // namespace gshmem::test

/// Returns the double of this process.
extern "C" gshmem::test::PmixDouble* pmix_double();
/// Calls back for late answers. Returns false if memory that the call passed by address is gone.
extern "C" bool pmix_double_answers();
/// Returns false if there is no handler for it.
extern "C" bool pmix_double_loses_its_server();
