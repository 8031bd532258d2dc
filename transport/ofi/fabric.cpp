#include "transport/ofi/fabric.h"

#include "host/base/random.h"
#include "host/base/thread.h"
#include "transport/ofi/environment.h"

#include <rdma/fi_cm.h>

#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

namespace gshmem::ofi {
namespace {

/// The CQ is polled until this many entries were read, since other work waits.
constexpr std::size_t kPollMost = 256;
/// Number of attempts: random keys of few bytes may be in use.
constexpr int kKeysTried = 16;
/// Size of an immediate that counts writes.
constexpr std::size_t kImmediateBytes = 4;

/// Returns the completion level. That of efa-direct is weaker than that of all others.
std::uint64_t completion_level(const char* fabric) {
  const bool direct = std::strcmp(fabric, "efa-direct") == 0;
  return direct ? FI_TRANSMIT_COMPLETE : FI_DELIVERY_COMPLETE;
}

Abilities abilities_of(const fi_info& info, fid_ep* endpoint) {
  const bool direct = std::strcmp(info.fabric_attr->name, "efa-direct") == 0;
  // efa and verbs report the acknowledgements of their devices, whatever level was requested
  // (efa_rdm_rma_should_write_using_rdma, vrb_msg_ep_rma_writemsg).
  const bool efa = is_named(info, "efa"), verbs = is_named(info, "verbs");
  const bool cxi = is_named(info, "cxi");
  return {.immediates = info.domain_attr->cq_data_size >= kImmediateBytes,
          .delivers = !efa && !verbs,
          .rdma = efa || verbs || cxi,
          // efa emulates writes if the device does not support them.
          .words = direct || verbs || cxi,
          .completion = completion_level(info.fabric_attr->name),
          .inject = inject_size(info, endpoint),
          // efa-direct sends at most a packet (efa_fabric_comparison.md).
          .max_send = direct ? 8192 : info.ep_attr->max_msg_size};
}

}  // namespace

Fabric::Fabric(const Library& library, InfoPtr info, std::size_t arrivals)
    : library_(library), info_(std::move(info)) {
  const SignalsHeldBack held_back;  // some providers start threads
  const std::string on = " on " + std::string(info_->fabric_attr->prov_name);
  const char* const other = "Try another GSHMEM_OFI_PROVIDER or GSHMEM_OFI_INTERFACE";
  library_.check(library_.fabric(info_->fabric_attr, fabric_.out(), nullptr), "fi_fabric" + on,
                 other);
  library_.check(fi_domain(fabric_.get(), info_.get(), domain_.out(), nullptr), "fi_domain" + on,
                 other);
  fi_av_attr av{};
  av.type = FI_AV_TABLE;
  library_.check(fi_av_open(domain_.get(), &av, av_.out(), nullptr), "fi_av_open" + on, other);
  fi_cq_attr cq{};
  cq.format = FI_CQ_FORMAT_DATA;
  cq.wait_obj = FI_WAIT_NONE;
  cq.size = info_->tx_attr->size + info_->rx_attr->size + arrivals;
  library_.check(fi_cq_open(domain_.get(), &cq, cq_.out(), nullptr), "fi_cq_open" + on, other);
  library_.check(fi_endpoint(domain_.get(), info_.get(), endpoint_.out(), nullptr),
                 "fi_endpoint" + on, other);
  library_.check(fi_ep_bind(endpoint_.get(), &av_->fid, 0), "fi_ep_bind(av)" + on, other);
  library_.check(fi_ep_bind(endpoint_.get(), &cq_->fid, FI_TRANSMIT | FI_RECV),
                 "fi_ep_bind(cq)" + on, other);
  if ((info_->caps & FI_HMEM) != 0) forbid_cuda(library_, endpoint_.get());
  // ofi_rxm requests from verbs a completion queue of the size that FI_UNIVERSE_SIZE peers need
  // (libfabric 1.17, rxm_ep_msg_cq_open); Soft-RoCE cannot have one for 256.
  library_.check(
      fi_enable(endpoint_.get()), "fi_enable" + on,
      (std::string(other) + ", or a smaller FI_UNIVERSE_SIZE where a device has short queues")
          .c_str());
  able_ = abilities_of(*info_, endpoint_.get());
}

std::vector<std::uint8_t> Fabric::address() const {
  std::size_t length = 0;
  (void)fi_getname(&endpoint_->fid, nullptr, &length);  // returns -FI_ETOOSMALL and sets the length
  std::vector<std::uint8_t> bytes(length);
  library_.check(fi_getname(&endpoint_->fid, bytes.data(), &length), "fi_getname",
                 "This is an error of the provider");
  return bytes;
}

void Fabric::insert(const std::vector<std::vector<std::uint8_t>>& addresses) {
  for (std::size_t pe = 0; pe < addresses.size(); ++pe) {
    fi_addr_t handle = FI_ADDR_UNSPEC;
    const int count = fi_av_insert(av_.get(), addresses[pe].data(), 1, &handle, 0, nullptr);
    require(count == 1, GSHMEMX_ERROR_NIC, [&] {
      return strprintf(
          "fi_av_insert(address of PE %zu, %zu bytes): returned %d. Do all PEs have "
          "the same provider and address family?",
          pe, addresses[pe].size(), count);
    });
    peers_.push_back(handle);
  }
}

/// Returns a key with as many bytes as the provider accepts. tcp checks only the key of a region,
/// so a key that can be guessed opens the heap to all who reach the port.
std::uint64_t Fabric::random_key() const {
  const std::size_t bytes = std::clamp<std::size_t>(info_->domain_attr->mr_key_size, 1, 8);
  return random_bits<std::uint64_t>() >> (64 - 8 * bytes);
}

Registered Fabric::register_memory(const nic::Region& region, std::uint64_t access) {
  Registered memory;
  Fid<fid_mr> mr;
  memory.base = static_cast<std::uint8_t*>(region.base);
  iovec where{region.base, region.bytes};
  fi_mr_attr attr{};
  attr.mr_iov = &where;
  attr.iov_count = 1;
  attr.access = access;
  if (region.kind == nic::MemoryKind::kGpu) {
    attr.iface = FI_HMEM_CUDA;
    attr.device.cuda = region.gpu;
  }
  const std::string call =
      strprintf("fi_mr_regattr(%s memory %p, %lu bytes)",
                region.kind == nic::MemoryKind::kGpu ? "GPU" : "host", region.base, region.bytes);
  int result = -FI_ENOKEY;
  for (int tries = 0; result == -FI_ENOKEY && tries < kKeysTried; ++tries) {
    attr.requested_key = random_key();
    result = fi_mr_regattr(domain_.get(), &attr, 0, mr.out());
  }
  library_.check(result, call, "Is the limit of locked memory (ulimit -l) large enough?");
  const int mode = info_->domain_attr->mr_mode;
  if (mode & FI_MR_ENDPOINT) {
    library_.check(fi_mr_bind(mr.get(), &endpoint_->fid, 0), "fi_mr_bind",
                   "This is an error of the provider");
    library_.check(fi_mr_enable(mr.get()), "fi_mr_enable", "This is an error of the provider");
  }
  memory.region = mr.get();
  memory.descriptor = fi_mr_desc(mr.get());
  memory.key = fi_mr_key(mr.get());
  // fi_mr(3): without FI_MR_VIRT_ADDR peers address a region from 0.
  memory.remote_base = mode & FI_MR_VIRT_ADDR ? reinterpret_cast<std::uintptr_t>(region.base) : 0;
  regions_.push_back(std::move(mr));
  return memory;
}

void Fabric::unregister_memory(const fid_mr* region) noexcept {
  const auto found =
      std::ranges::find_if(regions_, [&](const Fid<fid_mr>& each) { return each.get() == region; });
  if (found == regions_.end()) return;
  std::swap(*found, regions_.back());
  regions_.pop_back();
}

void Fabric::close() noexcept {
  // A provider may refuse to close an endpoint that regions are bound to (FI_MR_ENDPOINT).
  // Otherwise it may still access a region while it closes the endpoint.
  if (info_->domain_attr->mr_mode & FI_MR_ENDPOINT) regions_.clear();
  endpoint_.close();
  regions_.clear();
}

bool Fabric::poll() {
  std::array<fi_cq_data_entry, 64> entries;
  std::size_t read = 0;
  while (read < kPollMost) {
    const ssize_t count = fi_cq_read(cq_.get(), entries.data(), entries.size());
    if (count == -FI_EAVAIL) {
      poll_error();
      ++read;
      continue;
    }
    if (count == -FI_EAGAIN || count == 0) break;
    library_.check(count, "fi_cq_read", "The endpoint is lost; restart the job");
    for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) {
      const fi_cq_data_entry& entry = entries[i];
      auto* context = static_cast<Context*>(entry.op_context);
      // Messages of PEs carry no immediate. A message with one comes from a stranger, and its sink
      // ignores it.
      const bool writes = (entry.flags & FI_REMOTE_CQ_DATA) != 0 && (entry.flags & FI_MSG) == 0;
      if (writes && immediates_ != nullptr)
        immediates_->arrived(static_cast<std::uint32_t>(entry.data));
      else if (context != nullptr)
        context->sink->completed(*context, {.bytes = entry.len});
    }
    read += static_cast<std::size_t>(count);
    if (static_cast<std::size_t>(count) < entries.size()) break;
  }
  return read > 0;
}

void Fabric::poll_error() {
  fi_cq_err_entry entry{};
  const ssize_t count = fi_cq_readerr(cq_.get(), &entry, 0);
  if (count == -FI_EAGAIN) return;
  library_.check(count, "fi_cq_readerr", "The endpoint is lost; restart the job");
  char buffer[256] = "";
  const char* detail =
      fi_cq_strerror(cq_.get(), entry.prov_errno, entry.err_data, buffer, sizeof(buffer));
  std::string text = library_.text(entry.err);
  if (detail != nullptr && detail[0] != '\0' && text != detail)
    text += std::string(" (") + detail + ")";
  const Completion completion{.error = entry.err != 0 ? entry.err : FI_EOTHER, .text = text};
  auto* context = static_cast<Context*>(entry.op_context);
  if (context != nullptr) {
    context->sink->completed(*context, completion);
  } else {
    GSHMEM_WARN("libfabric reported an error without an operation: %s",
                std::string(completion.text).c_str());
  }
}

}  // namespace gshmem::ofi
