#include "transport/ofi/fabric.h"

#include "host/base/thread.h"

#include <rdma/fi_cm.h>

#include <sys/uio.h>

#include <array>

namespace gshmem::ofi {

Fabric::Fabric(const Library& library, InfoPtr info) : library_(library), info_(std::move(info)) {
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
  cq.format = FI_CQ_FORMAT_MSG;
  cq.wait_obj = FI_WAIT_NONE;
  cq.size = info_->tx_attr->size + info_->rx_attr->size;
  library_.check(fi_cq_open(domain_.get(), &cq, cq_.out(), nullptr), "fi_cq_open" + on, other);
  library_.check(fi_endpoint(domain_.get(), info_.get(), endpoint_.out(), nullptr),
                 "fi_endpoint" + on, other);
  library_.check(fi_ep_bind(endpoint_.get(), &av_->fid, 0), "fi_ep_bind(av)" + on, other);
  library_.check(fi_ep_bind(endpoint_.get(), &cq_->fid, FI_TRANSMIT | FI_RECV),
                 "fi_ep_bind(cq)" + on, other);
  // ofi_rxm asks verbs for a completion queue as long as FI_UNIVERSE_SIZE peers need, 256 without
  // it (libfabric 1.17, rxm_ep_msg_cq_open); Soft-RoCE has none that long.
  library_.check(
      fi_enable(endpoint_.get()), "fi_enable" + on,
      (std::string(other) + ", or FI_UNIVERSE_SIZE=64 where a device has short queues").c_str());
}

std::vector<std::uint8_t> Fabric::address() const {
  std::vector<std::uint8_t> bytes(256);
  for (;;) {
    std::size_t length = bytes.size();
    const int result = fi_getname(&endpoint_->fid, bytes.data(), &length);
    const bool short_of_space = result == -FI_ETOOSMALL && length > bytes.size();
    if (!short_of_space) library_.check(result, "fi_getname", "This is an error of the provider");
    bytes.resize(length);
    if (!short_of_space) return bytes;
  }
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

Registered Fabric::register_memory(const nic::Region& region, std::uint64_t access) {
  Registered memory;
  Fid<fid_mr> mr;
  memory.base = static_cast<std::uint8_t*>(region.base);
  memory.bytes = region.bytes;
  iovec where{region.base, region.bytes};
  fi_mr_attr attr{};
  attr.mr_iov = &where;
  attr.iov_count = 1;
  attr.access = access;
  attr.requested_key = next_key_++;
  if (region.kind == nic::MemoryKind::kGpu) {
    attr.iface = FI_HMEM_CUDA;
    attr.device.cuda = region.gpu;
  }
  const std::string call = strprintf("fi_mr_regattr(%s memory %p, %llu bytes)",
                                     region.kind == nic::MemoryKind::kGpu ? "GPU" : "host",
                                     region.base, static_cast<unsigned long long>(region.bytes));
  library_.check(fi_mr_regattr(domain_.get(), &attr, 0, mr.out()), call,
                 "Is the limit of locked memory (ulimit -l) large enough?");
  const int mode = info_->domain_attr->mr_mode;
  if (mode & FI_MR_ENDPOINT) {
    library_.check(fi_mr_bind(mr.get(), &endpoint_->fid, 0), "fi_mr_bind",
                   "This is an error of the provider");
    library_.check(fi_mr_enable(mr.get()), "fi_mr_enable", "This is an error of the provider");
  }
  memory.descriptor = fi_mr_desc(mr.get());
  memory.key = fi_mr_key(mr.get());
  // fi_mr(3): without FI_MR_VIRT_ADDR peers address a region from 0.
  memory.remote_base = mode & FI_MR_VIRT_ADDR ? reinterpret_cast<std::uintptr_t>(region.base) : 0;
  regions_.push_back(std::move(mr));
  return memory;
}

void Fabric::try_registration(const nic::Region& region) {
  (void)register_memory(region, FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE);
  regions_.pop_back();
}

void Fabric::close() noexcept {
  // A provider may refuse to close an endpoint that regions are bound to (FI_MR_ENDPOINT). Without
  // that it may still look at a region while it closes the endpoint.
  if (info_->domain_attr->mr_mode & FI_MR_ENDPOINT) regions_.clear();
  endpoint_.close();
  regions_.clear();
}

bool Fabric::poll() {
  std::array<fi_cq_msg_entry, 32> entries;
  const ssize_t count = fi_cq_read(cq_.get(), entries.data(), entries.size());
  if (count == -FI_EAVAIL) {
    poll_error();
    return true;
  }
  if (count == -FI_EAGAIN || count == 0) return false;
  library_.check(count, "fi_cq_read", "The endpoint is lost; restart the job");
  for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) {
    auto* context = static_cast<Context*>(entries[i].op_context);
    if (context != nullptr)
      context->sink->completed(*context, {.error = 0, .bytes = entries[i].len});
  }
  return true;
}

void Fabric::poll_error() {
  fi_cq_err_entry entry{};
  const ssize_t count = fi_cq_readerr(cq_.get(), &entry, 0);
  if (count == -FI_EAGAIN) return;
  library_.check(count, "fi_cq_readerr", "The endpoint is lost; restart the job");
  char buffer[256] = "";
  const char* detail =
      fi_cq_strerror(cq_.get(), entry.prov_errno, entry.err_data, buffer, sizeof(buffer));
  Completion completion{
      .error = entry.err != 0 ? entry.err : FI_EIO, .bytes = 0, .text = library_.text(entry.err)};
  if (detail != nullptr && detail[0] != '\0' && completion.text != detail)
    completion.text += std::string(" (") + detail + ")";
  auto* context = static_cast<Context*>(entry.op_context);
  if (context != nullptr) {
    context->sink->completed(*context, completion);
  } else {
    GSHMEM_WARN("libfabric reported an error without an operation: %s", completion.text.c_str());
  }
}

}  // namespace gshmem::ofi
