#include "transport/ofi/provider_error.h"

namespace gshmem::ofi {
namespace {

/// Is it a provider over connections? Such a provider reports their end by codes that mean less
/// elsewhere, also for operations that were pending on them (seen with libfabric 1.17: FI_ECANCELED
/// of ofi_rxm).
bool has_connections(const fi_info& info) {
  return is_named(info, "ofi_rxm") || is_named(info, "tcp");
}

}  // namespace

ProviderError judge(const fi_info& info, const Completion& completion, const std::string& what) {
  using abi::Syndrome;
  const std::string text = what + ": " + std::string(completion.text);
  switch (completion.error) {
    case FI_ENORX:   // in efa: no receive buffer
    case FI_EAGAIN:  // in cxi: resources of the target
      return {.failure = failure(Syndrome::kRnrRetryExceeded, text), .transient = true};
    case FI_EACCES:
    case FI_EPERM:
    case FI_EKEYREJECTED:
    case FI_ENOKEY:
      return {.failure = failure(Syndrome::kRemoteAccess, text)};
    case FI_EINVAL:
      // This is EFA_IO_COMP_STATUS_REMOTE_ERROR_BAD_ADDRESS of efa_errno.h.
      if (is_named(info, "efa")) return {.failure = failure(Syndrome::kRemoteAccess, text)};
      break;
    case FI_EFAULT:
      return {.failure = failure(Syndrome::kLocalProtection, text)};
    case FI_EMSGSIZE:
    case FI_ETOOSMALL:
    case FI_ETRUNC:
      return {.failure = failure(Syndrome::kLocalLength, text)};
    case FI_ECONNREFUSED:
    case FI_ECONNRESET:
    case FI_ECONNABORTED:
    case FI_ENOTCONN:
    case FI_ESHUTDOWN:
    case FI_ETIMEDOUT:
    case FI_EHOSTDOWN:
    case FI_EHOSTUNREACH:
    case FI_ENETDOWN:
    case FI_ENETUNREACH:
    case EPIPE:
      return {.failure = failure(Syndrome::kRetryExceeded, text), .peer_lost = true};
    case FI_ENOENT:
    case FI_ECANCELED:
    case FI_EIO:
      // With other providers the codes mean little: the probe of liveness.h decides whether the
      // peer is lost.
      return {.failure = failure(Syndrome::kRetryExceeded, text),
              .peer_lost = has_connections(info)};
    default:
      break;
  }
  return {.failure = failure(Syndrome::kRemoteOperation, text)};
}

void lose(Peer& peer, const std::string& why) {
  if (peer.lost.empty()) peer.lost = why;
}

}  // namespace gshmem::ofi
