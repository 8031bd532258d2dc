// Captures what a test writes to descriptor 2. A sequenced-packet socket keeps the boundaries of
// write(2): each element of writes() is the text of one call.
#pragma once

#include "host/base/error.h"
#include "host/base/log.h"

#include <sys/socket.h>
#include <unistd.h>

#include <string>
#include <vector>

namespace gshmem::test {

class StderrCapture {
 public:
  StderrCapture() {
    int ends[2];
    check_errno(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends), "socketpair");
    saved_ = dup(STDERR_FILENO);
    check_errno(dup2(ends[1], STDERR_FILENO), "dup2");
    close(ends[1]);
    read_end_ = ends[0];
  }
  ~StderrCapture() {
    dup2(saved_, STDERR_FILENO);
    close(saved_);
    close(read_end_);
  }
  StderrCapture(const StderrCapture&) = delete;
  StderrCapture& operator=(const StderrCapture&) = delete;

  /// Returns the text since the last call, one element per write(2).
  [[nodiscard]] std::vector<std::string> writes() {
    std::vector<std::string> all;
    std::string buffer(1 << 16, '\0');
    for (;;) {
      const ssize_t size = recv(read_end_, buffer.data(), buffer.size(), MSG_DONTWAIT);
      if (size <= 0) return all;
      all.push_back(buffer.substr(0, static_cast<std::size_t>(size)));
    }
  }
  /// Returns it as one text.
  [[nodiscard]] std::string text() {
    std::string all;
    for (const std::string& one : writes()) all += one;
    return all;
  }

 private:
  int saved_ = -1;
  int read_end_ = -1;
};

/// Returns what `run` writes while lines of the log from INFO on are shown.
template <class Run>
std::vector<std::string> said_at_info(Run run) {
  StderrCapture capture;
  log_configure(LogLevel::kInfo, "");
  run();
  log_configure(LogLevel::kWarn, "");
  return capture.writes();
}

}  // namespace gshmem::test
