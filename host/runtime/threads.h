// The threads of launches in CPU mode. The functions that headers call are declared in
// device/core/host_block.h.
#pragma once

namespace gshmem {

/// Ends the threads that wait for the next launch by the calling thread.
void end_launch_threads() noexcept;

}  // namespace gshmem
