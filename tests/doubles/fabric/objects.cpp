// The objects of libfabric and its exported functions, over wire.h.
#include "tests/doubles/fabric/charges.h"
#include "tests/doubles/fabric/wire.h"

#include <rdma/fi_cm.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>

#include <algorithm>
#include <csignal>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <utility>

namespace gshmem::test {
namespace {

struct Domain : fid_domain {
  const Profile* profile;
  std::uint32_t version;
};
struct Fabric : fid_fabric {};
struct Av : fid_av {
  std::vector<std::shared_ptr<Port>> peers;
};
struct Mr : fid_mr {
  Region* region;
  bool bound;  ///< to an endpoint
  Endpoint* endpoint;
};

/// The address of an endpoint, valid as long as the process.
constexpr std::uint64_t kAddressMagic = 0x656c62756f646f66;
struct Address {
  std::uint64_t magic, number;
};
std::mutex ports_mutex;
std::vector<std::weak_ptr<Port>> ports;

template <class T>
int close_as(fid* object) {
  delete reinterpret_cast<T*>(object);
  return 0;
}
int bind_nothing(fid*, fid*, std::uint64_t) { return 0; }
int control_nothing(fid*, int, void*) { return 0; }

/// A table of libfabric's calls: null except for those that `fill` sets, in newer headers, too.
template <class Ops>
constexpr Ops table(void (*fill)(Ops&)) {
  Ops ops{};
  ops.size = sizeof(ops);
  fill(ops);
  return ops;
}

template <class T>
constinit fi_ops basic_ops = table<fi_ops>([](auto& ops) {
  ops.close = close_as<T>;
  ops.bind = bind_nothing;
  ops.control = control_nothing;
});

template <class T, class Base>
T* make(std::size_t fclass) {
  T* const object = new T{};
  object->fid.fclass = fclass;
  object->fid.ops = &basic_ops<T>;
  return object;
}

// Address vectors.
int insert(fid_av* av, const void* addresses, std::size_t count, fi_addr_t* handles,
           std::uint64_t flags, void*) {
  if (flags != 0) record().violation("flags of fi_av_insert, of which none is asked for");
  auto& peers = static_cast<Av*>(av)->peers;
  const auto* const names = static_cast<const Address*>(addresses);
  const std::lock_guard lock(ports_mutex);
  std::size_t inserted = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const bool known = names[i].magic == kAddressMagic && names[i].number < ports.size();
    auto port = known ? ports[names[i].number].lock() : nullptr;
    handles[i] = port != nullptr ? peers.size() : FI_ADDR_NOTAVAIL;
    if (port == nullptr) continue;
    peers.push_back(std::move(port));
    ++inserted;
  }
  return static_cast<int>(inserted);
}
constinit fi_ops_av av_ops = table<fi_ops_av>([](auto& ops) { ops.insert = insert; });

// Completion queues.
ssize_t read_cq(fid_cq* queue, void* to, std::size_t count) {
  Cq& cq = *static_cast<Cq*>(queue);
  if (const int error = record().broken; error != 0) return -error;
  for (Endpoint* endpoint : cq.endpoints) endpoint->progress();
  std::size_t read = 0;
  for (; read < count && !cq.entries.empty(); ++read) {
    if (!cq.errors.empty() && cq.errors.begin()->first == cq.taken) break;
    const fi_cq_data_entry& entry = cq.entries.front();
    if (cq.format == FI_CQ_FORMAT_DATA)
      static_cast<fi_cq_data_entry*>(to)[read] = entry;
    else
      static_cast<fi_cq_msg_entry*>(to)[read] = {entry.op_context, entry.flags, entry.len};
    cq.entries.pop_front();
    ++cq.taken;
  }
  if (read > 0) return static_cast<ssize_t>(read);
  return cq.entries.empty() ? -FI_EAGAIN : -FI_EAVAIL;
}
ssize_t read_error(fid_cq* queue, fi_cq_err_entry* to, std::uint64_t flags) {
  Cq& cq = *static_cast<Cq*>(queue);
  if (flags != 0) record().violation("flags of fi_cq_readerr, which knows none");
  if (const int error = record().no_error.exchange(0); error != 0) return -error;
  if (cq.errors.empty() || cq.errors.begin()->first != cq.taken) return -FI_EAGAIN;
  const fi_cq_data_entry& entry = cq.entries.front();
  *to = {};
  to->op_context = entry.op_context;
  to->flags = entry.flags;
  to->len = entry.len;
  to->err = std::max(cq.errors.begin()->second, 0);  // kNoNumber
  cq.errors.erase(cq.errors.begin());
  cq.entries.pop_front();
  ++cq.taken;
  return 1;
}
const char* error_text(fid_cq*, int, const void*, char*, std::size_t) { return record().detail; }
constinit fi_ops_cq cq_ops = table<fi_ops_cq>([](auto& ops) {
  ops.read = read_cq;
  ops.readerr = read_error;
  ops.strerror = error_text;
});

// Endpoints.
Endpoint& endpoint_of(fid_ep* endpoint) { return *static_cast<Endpoint*>(endpoint); }

ssize_t receive(fid_ep* endpoint, void* to, std::size_t bytes, void* descriptor, fi_addr_t,
                void* context) {
  return endpoint_of(endpoint).receive(to, bytes, descriptor, context);
}
ssize_t send_message(fid_ep* endpoint, const fi_msg* message, std::uint64_t flags) {
  return endpoint_of(endpoint).post(
      {.call = FabricDouble::kSend,
       .local = message->msg_iov->iov_base,
       .bytes = message->msg_iov->iov_len,
       .descriptor = message->desc != nullptr ? *message->desc : nullptr,
       .peer = message->addr,
       .context = message->context,
       .flags = flags,
       .data = message->data});
}
constinit fi_ops_msg msg_ops = table<fi_ops_msg>([](auto& ops) {
  ops.recv = receive;
  ops.sendmsg = send_message;
});

/// Records a call with its arguments in the journal.
[[gnu::format(printf, 1, 2)]] void note(const char* format, ...) {
  if (!record().journals) return;
  char text[256];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text, sizeof(text), format, arguments);
  va_end(arguments);
  record().note(text);
}
unsigned long long ull(std::uint64_t value) { return value; }

ssize_t move(fid_ep* endpoint, FabricDouble::Call call, const fi_msg_rma& message,
             std::uint64_t flags) {
  note("%s by %d: %zu bytes to %llu flags 0x%llx", call == FabricDouble::kRead ? "read" : "write",
       endpoint_of(endpoint).nic(), message.msg_iov->iov_len, ull(message.rma_iov->addr),
       ull(flags));
  if (message.iov_count != 1 || message.rma_iov_count != 1 ||
      message.msg_iov->iov_len != message.rma_iov->len)
    record().violation("more than one piece of memory in a call");
  return endpoint_of(endpoint).post(
      {.call = call,
       .local = message.msg_iov->iov_base,
       .bytes = message.msg_iov->iov_len,
       .descriptor = message.desc != nullptr ? *message.desc : nullptr,
       .peer = message.addr,
       .remote = message.rma_iov->addr,
       .key = message.rma_iov->key,
       .context = message.context,
       .flags = flags,
       .data = message.data});
}
ssize_t read_message(fid_ep* endpoint, const fi_msg_rma* message, std::uint64_t flags) {
  return move(endpoint, FabricDouble::kRead, *message, flags);
}
ssize_t write_message(fid_ep* endpoint, const fi_msg_rma* message, std::uint64_t flags) {
  return move(endpoint, FabricDouble::kWrite, *message, flags);
}
ssize_t read_plain(fid_ep* endpoint, void* to, std::size_t bytes, void* descriptor, fi_addr_t peer,
                   std::uint64_t remote, std::uint64_t key, void* context) {
  note("fetch by %d: %zu bytes from %llu", endpoint_of(endpoint).nic(), bytes, ull(remote));
  return endpoint_of(endpoint).post({.call = FabricDouble::kRead,
                                     .local = to,
                                     .bytes = bytes,
                                     .descriptor = descriptor,
                                     .peer = peer,
                                     .remote = remote,
                                     .key = key,
                                     .context = context,
                                     .flags = FI_COMPLETION});
}
constinit fi_ops_rma rma_ops = table<fi_ops_rma>([](auto& ops) {
  ops.read = read_plain;
  ops.readmsg = read_message;
  ops.writemsg = write_message;
});

std::uint64_t operand_at(const void* from, fi_datatype type) {
  if (type == FI_UINT32) return *static_cast<const std::uint32_t*>(from);
  return *static_cast<const std::uint64_t*>(from);
}
ssize_t fetch_atomic(fid_ep* endpoint, const void* operand, std::size_t count, void*, void* result,
                     void* descriptor, fi_addr_t peer, std::uint64_t remote, std::uint64_t key,
                     fi_datatype type, fi_op op, void* context) {
  if (count != 1) return -FI_EINVAL;  // valid_atomic reports it
  return endpoint_of(endpoint).post({.call = FabricDouble::kFetchAtomic,
                                     .local = result,
                                     .bytes = type == FI_UINT32 ? 4u : 8u,
                                     .descriptor = descriptor,
                                     .peer = peer,
                                     .remote = remote,
                                     .key = key,
                                     .context = context,
                                     .op = op,
                                     .operand = operand_at(operand, type)});
}
ssize_t compare_atomic(fid_ep* endpoint, const void* operand, std::size_t count, void*,
                       const void* compare, void*, void* result, void* descriptor, fi_addr_t peer,
                       std::uint64_t remote, std::uint64_t key, fi_datatype type, fi_op op,
                       void* context) {
  if (count != 1) return -FI_EINVAL;
  return endpoint_of(endpoint).post({.call = FabricDouble::kCompareAtomic,
                                     .local = result,
                                     .bytes = type == FI_UINT32 ? 4u : 8u,
                                     .descriptor = descriptor,
                                     .peer = peer,
                                     .remote = remote,
                                     .key = key,
                                     .context = context,
                                     .op = op,
                                     .operand = operand_at(operand, type),
                                     .compare = operand_at(compare, type)});
}
int valid_atomic(fid_ep*, fi_datatype type, fi_op, std::size_t* count) {
  *count = 1;
  return record().no_atomics_of == (type == FI_UINT32 ? 4 : 8) ? -FI_EOPNOTSUPP : 0;
}
constinit fi_ops_atomic atomic_ops = table<fi_ops_atomic>([](auto& ops) {
  ops.readwrite = fetch_atomic;
  ops.compwrite = compare_atomic;
  ops.readwritevalid = valid_atomic;
  ops.compwritevalid = valid_atomic;
});

int get_name(fid* object, void* address, std::size_t* bytes) {
  const auto& port = endpoint_of(reinterpret_cast<fid_ep*>(object)).port();
  const std::lock_guard lock(ports_mutex);
  const auto at = std::find_if(ports.begin(), ports.end(),
                               [&](const auto& known) { return known.lock() == port; });
  const Address name{kAddressMagic, static_cast<std::uint64_t>(at - ports.begin())};
  const std::size_t room = std::exchange(*bytes, sizeof(name));
  // Providers fill as much as fits.
  if (address == nullptr && room != 0) record().violation("an address of fi_getname that is null");
  if (room < sizeof(name)) return -FI_ETOOSMALL;
  std::memcpy(address, &name, sizeof(name));
  return 0;
}
constinit fi_ops_cm cm_ops = table<fi_ops_cm>([](auto& ops) { ops.getname = get_name; });

int set_option(fid* object, int level, int option, const void* value, std::size_t bytes) {
  note("set option %d of level %d to %d", option, level, int{*static_cast<const char*>(value)});
  Endpoint& endpoint = endpoint_of(reinterpret_cast<fid_ep*>(object));
  constexpr int kCudaPermitted = 10;  // FI_OPT_CUDA_API_PERMITTED of 1.18
  if (option == FI_OPT_FI_HMEM_P2P) return 0;
  if (option != kCudaPermitted || bytes != sizeof(bool)) return -FI_ENOPROTOOPT;
  const bool permitted = *static_cast<const bool*>(value);
  if (!permitted && !record().permits_cuda) return -FI_EOPNOTSUPP;
  endpoint.may_call_cuda &= permitted;
  return 0;
}
int get_option(fid* object, int, int option, void* value, std::size_t* bytes) {
  const Endpoint& endpoint = endpoint_of(reinterpret_cast<fid_ep*>(object));
  constexpr int kInjectRmaSize = 18;  // FI_OPT_INJECT_RMA_SIZE of 1.20, which old providers lack
  const bool efa = std::strcmp(endpoint.profile().provider, "efa") == 0;
  if (!efa || !record().knows_inject_of_rma || option != kInjectRmaSize ||
      *bytes < sizeof(std::size_t))
    return -FI_ENOPROTOOPT;
  *static_cast<std::size_t*>(value) = endpoint.profile().inject;
  return 0;
}
constinit fi_ops_ep ep_ops = table<fi_ops_ep>([](auto& ops) {
  ops.getopt = get_option;
  ops.setopt = set_option;
});

int bind_endpoint(fid* object, fid* to, std::uint64_t flags) {
  note("bind %s with 0x%llx", to->fclass == FI_CLASS_AV ? "av" : "cq", ull(flags));
  Endpoint& endpoint = endpoint_of(reinterpret_cast<fid_ep*>(object));
  if (to->fclass == FI_CLASS_AV) endpoint.peers = &reinterpret_cast<Av*>(to)->peers;
  if (to->fclass != FI_CLASS_CQ) return 0;
  endpoint.cq = reinterpret_cast<Cq*>(to);
  endpoint.cq->endpoints.push_back(&endpoint);
  return 0;
}
int control_endpoint(fid* object, int command, void*) {
  if (command != FI_ENABLE) return -FI_ENOSYS;
  endpoint_of(reinterpret_cast<fid_ep*>(object)).enabled = true;
  return 0;
}
int close_endpoint(fid* object) {
  note("close endpoint");
  Endpoint* const endpoint = &endpoint_of(reinterpret_cast<fid_ep*>(object));
  if (endpoint->bound_regions > 0)
    record().violation("an endpoint is closed before regions bound to it");
  if (endpoint->cq != nullptr) std::erase(endpoint->cq->endpoints, endpoint);
  delete endpoint;
  return 0;
}
constinit fi_ops endpoint_ops = table<fi_ops>([](auto& ops) {
  ops.close = close_endpoint;
  ops.bind = bind_endpoint;
  ops.control = control_endpoint;
});

// Memory regions.
int close_region(fid* object) {
  note("close region");
  auto* const mr = reinterpret_cast<Mr*>(object);
  mr->region->usable = false;
  if (mr->bound) --mr->endpoint->bound_regions;
  delete mr;
  return 0;
}
int bind_region(fid* object, fid* to, std::uint64_t flags) {
  auto* const mr = reinterpret_cast<Mr*>(object);
  mr->bound = flags == 0;
  mr->endpoint = &endpoint_of(reinterpret_cast<fid_ep*>(to));
  if (mr->bound) ++mr->endpoint->bound_regions;
  return 0;
}
int enable_region(fid* object, int command, void*) {
  auto* const mr = reinterpret_cast<Mr*>(object);
  if (command == FI_ENABLE) mr->region->usable = mr->bound;
  return 0;
}
constinit fi_ops region_ops = table<fi_ops>([](auto& ops) {
  ops.close = close_region;
  ops.bind = bind_region;
  ops.control = enable_region;
});

int register_region(fid* object, const fi_mr_attr* attributes, std::uint64_t flags, fid_mr** made) {
  if (flags != 0) record().violation("flags of fi_mr_regattr, of which none is asked for");
  const Domain& domain = *reinterpret_cast<Domain*>(object);
  const bool gpu = attributes->iface == FI_HMEM_CUDA;
  note("register %zu bytes, access 0x%llx, gpu %d, pieces %zu", attributes->mr_iov->iov_len,
       ull(attributes->access), gpu ? attributes->device.cuda : -1, attributes->iov_count);
  if (gpu && (!record().hmem || (domain.profile->caps & FI_HMEM) == 0)) return -FI_ENOSYS;
  const std::uint64_t most = gpu ? record().register_at_most : record().register_at_most_of_host;
  if (attributes->mr_iov->iov_len > most) return -FI_ENOMEM;
  // Others write to heaps alone, which staged jobs do not register.
  using Fails = soft::Costs::Fails;
  const bool is_heap = (attributes->access & FI_REMOTE_WRITE) != 0;
  if (is_heap && (fails_by_costs(Fails::kGpu) || fails_by_costs(Fails::kPort))) return -FI_ENOSYS;
  auto region = std::make_unique<Region>();
  region->base = static_cast<std::uint8_t*>(attributes->mr_iov->iov_base);
  region->bytes = attributes->mr_iov->iov_len;
  region->access = attributes->access;
  region->gpu = gpu;
  region->by_address = (domain.profile->mr_mode & FI_MR_VIRT_ADDR) != 0;
  region->domain = &domain;
  region->usable = (domain.profile->mr_mode & FI_MR_ENDPOINT) == 0;
  Mr* const mr = make<Mr, fid_mr>(FI_CLASS_MR);
  mr->fid.ops = &region_ops;
  mr->region = region.get();
  mr->mem_desc = region.get();
  mr->key = add_region(std::move(region));
  *made = mr;
  return 0;
}
constinit fi_ops_mr mr_ops = table<fi_ops_mr>([](auto& ops) { ops.regattr = register_region; });

// Domains and fabrics.
int open_av(fid_domain*, fi_av_attr* attributes, fid_av** made, void*) {
  note("av of type %d", int{attributes->type});
  Av* const av = make<Av, fid_av>(FI_CLASS_AV);
  av->ops = &av_ops;
  *made = av;
  return 0;
}
int open_cq(fid_domain*, fi_cq_attr* attributes, fid_cq** made, void*) {
  note("cq of format %d, wait %d, %zu entries", int{attributes->format}, int{attributes->wait_obj},
       attributes->size);
  Cq* const cq = make<Cq, fid_cq>(FI_CLASS_CQ);
  cq->ops = &cq_ops;
  cq->format = attributes->format;
  cq->size = attributes->size;
  *made = cq;
  return 0;
}
int open_endpoint(fid_domain* object, fi_info* info, fid_ep** made, void*) {
  const auto& domain = *static_cast<Domain*>(object);
  auto* const endpoint = new Endpoint(*domain.profile, *info, &domain, domain.version);
  endpoint->fid.fclass = FI_CLASS_EP;
  endpoint->fid.ops = &endpoint_ops;
  endpoint->ops = &ep_ops;
  endpoint->cm = &cm_ops;
  endpoint->msg = &msg_ops;
  endpoint->rma = &rma_ops;
  endpoint->atomic = &atomic_ops;
  const std::lock_guard lock(ports_mutex);
  ports.push_back(endpoint->port());
  *made = endpoint;
  return 0;
}
constinit fi_ops_domain domain_ops = table<fi_ops_domain>([](auto& ops) {
  ops.av_open = open_av;
  ops.cq_open = open_cq;
  ops.endpoint = open_endpoint;
});

int open_domain(fid_fabric* fabric, fi_info* info, fid_domain** made, void*) {
  Domain* const domain = make<Domain, fid_domain>(FI_CLASS_DOMAIN);
  domain->ops = &domain_ops;
  domain->mr = &mr_ops;
  domain->profile = &profile_of(*info);
  domain->version = fabric->api_version;
  const char* const universe = variable("FI_UNIVERSE_SIZE");
  record().universe = universe != nullptr ? std::strtoull(universe, nullptr, 10) : 0;
  *made = domain;
  return 0;
}
constinit fi_ops_fabric fabric_ops =
    table<fi_ops_fabric>([](auto& ops) { ops.domain = open_domain; });

std::int64_t time_of(std::string_view text) {
  char* end = nullptr;
  const std::string value(text);
  const double number = std::strtod(value.c_str(), &end);
  const std::string_view unit = end;
  return static_cast<std::int64_t>(number * (unit == "us" ? 1e3 : unit == "ms" ? 1e6 : 1));
}

/// Sets one rule of FABRIC_DOUBLE: "rtt=15us", "offer=efa+tcp;ofi_rxm", "busy=50".
void set_rule(FabricDouble& rules, std::string_view name, std::string_view value) {
  if (name == "offer") {
    std::vector<std::string> providers;
    while (!value.empty()) {
      const std::size_t plus = std::min(value.find('+'), value.size());
      providers.emplace_back(value.substr(0, plus));
      value.remove_prefix(std::min(plus + 1, value.size()));
    }
    rules.offer(std::move(providers));
  } else if (name == "rtt") {
    rules.rtt = time_of(value);
  } else if (name == "jitter") {
    rules.jitter = time_of(value);
  } else if (name == "trail") {
    rules.trail = time_of(value);
  } else if (name == "busy") {
    rules.busy = static_cast<unsigned>(time_of(value));
  } else if (name == "seed") {
    rules.seed = static_cast<unsigned>(time_of(value));
  } else if (name == "nics") {
    rules.nics = static_cast<int>(time_of(value));
  } else {
    std::fprintf(stderr, "FABRIC_DOUBLE has no rule \"%s\"\n", std::string(name).c_str());
    std::exit(2);
  }
}

/// libinfinipath, which Debian's libfabric loads, does this.
[[gnu::constructor]] void take_signals() {
  for (const int number : {SIGHUP, SIGTERM}) std::signal(number, [](int) { std::_Exit(98); });
}

/// A program without test code does not ask for violations: it fails at its end.
void end_with_violations() {
  const std::vector<std::string> all = record().violations();
  for (const std::string& what : all) std::fprintf(stderr, "FABRIC_DOUBLE: %s\n", what.c_str());
  if (!all.empty()) std::_Exit(99);
}

}  // namespace

FabricDouble& record() {
  static FabricDouble* const only = [] {
    auto* const rules = new FabricDouble;
    const char* const text = variable("FABRIC_DOUBLE");
    rules->offer({"efa"});
    for (std::string_view left = text != nullptr ? text : ""; !left.empty();) {
      const std::size_t comma = std::min(left.find(','), left.size());
      const std::string_view rule = left.substr(0, comma);
      const std::size_t is = std::min(rule.find('='), rule.size());
      set_rule(*rules, rule.substr(0, is), rule.substr(std::min(is + 1, rule.size())));
      left.remove_prefix(std::min(comma + 1, left.size()));
    }
    if (text != nullptr) std::atexit(end_with_violations);
    return rules;
  }();
  return *only;
}

}  // namespace gshmem::test

using namespace gshmem::test;

extern "C" {
FabricDouble* fabric_double_record() { return &record(); }

int fi_getinfo(std::uint32_t version, const char* node, const char* service, std::uint64_t flags,
               const fi_info* hints, fi_info** info) {
  const auto text = [](const char* name) { return name != nullptr ? name : "any"; };
  note("getinfo %u.%u %s %s, %s:%s flags 0x%llx, caps 0x%llx, mode 0x%llx, type %d",
       FI_MAJOR(version), FI_MINOR(version), text(hints->fabric_attr->prov_name),
       text(hints->fabric_attr->name), text(node), text(service), ull(flags), ull(hints->caps),
       ull(hints->mode), int{hints->ep_attr->type});
  note("  op 0x%llx, mr 0x%x, threading %d, management %d, av %d", ull(hints->tx_attr->op_flags),
       static_cast<unsigned>(hints->domain_attr->mr_mode), int{hints->domain_attr->threading},
       int{hints->domain_attr->resource_mgmt}, int{hints->domain_attr->av_type});
  const int result = find_infos(version, node, flags, hints, info);
  for (fi_info* i = *info; i != nullptr; i = i->next) i->fabric_attr->api_version = version;
  return result;
}
void fi_freeinfo(fi_info* info) { release(info); }
fi_info* fi_dupinfo(const fi_info* info) { return record().no_memory ? nullptr : duplicate(info); }
int fi_fabric(fi_fabric_attr* attributes, fid_fabric** fabric, void*) {
  auto* const made = new Fabric{};
  made->fid.fclass = FI_CLASS_FABRIC;
  made->fid.ops = &basic_ops<Fabric>;
  made->ops = &fabric_ops;
  made->api_version = attributes->api_version;
  *fabric = made;
  return 0;
}
std::uint32_t fi_version() { return FI_VERSION(2, 6); }
const char* fi_strerror(int error) { return std::strerror(error); }
}
