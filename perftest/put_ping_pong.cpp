// Round trip of put, fence and a flag stored by p.
#include "perftest/common/pingpong.h"

namespace perftest {
namespace {

struct PutThenFlag {
  template <class Group>
  GSHMEM_FN static void send(const gshmem::LaunchContext& ctx, const Group& group,
                             const PingPong& game, const std::byte* source, std::uint64_t number) {
    ctx.put(group, game.inbox, source, game.bytes, game.partner);
    if (group.thread_rank() == 0) {
      ctx.fence();
      ctx.p(game.flag, number, game.partner);
    }
  }
};

}  // namespace
}  // namespace perftest

int main(int argc, char** argv) {
  using namespace perftest;
  return run_program(pingpong_program("put_ping_pong", "round trip of put + fence + flag",
                                      run_pingpong<PutThenFlag>),
                     argc, argv);
}
