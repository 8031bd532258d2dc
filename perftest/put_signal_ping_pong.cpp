// Round trip of put_signal.
#include "perftest/common/pingpong.h"

namespace perftest {
namespace {

struct PutSignal {
  template <class Group>
  GSHMEM_FN static void send(const gshmem::LaunchContext& ctx, const Group& group,
                             const PingPong& game, const std::byte* source, std::uint64_t number) {
    ctx.put_signal(group, game.inbox, source, game.bytes, {game.flag, number}, game.partner);
  }
};

}  // namespace
}  // namespace perftest

int main(int argc, char** argv) {
  using namespace perftest;
  return run_program(
      pingpong_program("put_signal_ping_pong", "round trip of put_signal", run_pingpong<PutSignal>),
      argc, argv);
}
