// What the libraries have the engine do, over one that only listens: all that a client makes is
// destroyed in the engine, by the client or when its context closes.
#include "tests/nic/verbs_devx.h"
#include "tests/nic/verbs_fake_engine.h"

#include "host/base/error.h"

#include <algorithm>
#include <map>
#include <string>
#include <vector>

using namespace verbs_test;
using gshmem::strprintf;

namespace {

using Lines = std::vector<std::string>;

/// What the engine was told in a call.
template <class Call>
Lines lines_of(Call call) {
  Lines lines;
  told = &lines;
  call();
  told = nullptr;
  return lines;
}

/// The number after a word of the only line.
std::uint32_t number_in(const Lines& lines, const std::string& word) {
  REQUIRE(lines.size() == 1);
  const std::size_t at = lines[0].find(" " + word + " ");
  REQUIRE(at != std::string::npos);
  return static_cast<std::uint32_t>(std::stoul(lines[0].substr(at + word.size() + 2)));
}

bool has(const Lines& lines, const std::string& text) {
  return std::ranges::any_of(
      lines, [&](const std::string& each) { return each.find(text) != std::string::npos; });
}

/// One of each kind, by the calls of verbs and of DevX.
struct Client {
  ibv_context* context;
  Pages memory = pages(4096);
  ibv_pd* pd = nullptr;
  ibv_mr* mr = nullptr;
  ibv_cq* cq = nullptr;
  ibv_srq* srq = nullptr;
  ibv_qp* qp = nullptr;
  std::uint32_t uar_of_cq = 0, uar_of_qp = 0;

  Client() {
    ibv_device** list = ibv_get_device_list(nullptr);
    REQUIRE(list != nullptr);
    context = ibv_open_device(list[0]);
    ibv_free_device_list(list);
    REQUIRE(context != nullptr);
    pd = ibv_alloc_pd(context);
    mr = ibv_reg_mr(pd, memory.get(), 4096, kLocalWrite);
    uar_of_cq =
        number_in(lines_of([&] { cq = ibv_create_cq(context, 3, nullptr, nullptr, 0); }), "uar");
    ibv_srq_init_attr buffers{};
    buffers.attr = {4, 1, 0};
    srq = ibv_create_srq(pd, &buffers);
    ibv_qp_init_attr init{};
    init.send_cq = init.recv_cq = cq;
    init.srq = srq;
    init.cap = {1, 0, 1, 0, 0};
    init.qp_type = IBV_QPT_RC;
    uar_of_qp = number_in(lines_of([&] { qp = ibv_create_qp(pd, &init); }), "uar");
    REQUIRE((pd != nullptr && mr != nullptr && cq != nullptr && srq != nullptr && qp != nullptr));
  }
};

}  // namespace

TEST_CASE("what a client destroys is destroyed in the engine, with its doorbell page") {
  const Client client;
  const std::uint32_t qp = client.qp->handle, cq = client.cq->handle, mr = client.mr->handle,
                      pd = client.pd->handle;
  CHECK(lines_of([&] { CHECK(ibv_destroy_qp(client.qp) == 0); }) ==
        Lines{strprintf("destroy_qp %u", qp), strprintf("destroy_uar %u", client.uar_of_qp)});
  CHECK(lines_of([&] { CHECK(ibv_destroy_srq(client.srq) == 0); }).size() == 1);
  CHECK(lines_of([&] { CHECK(ibv_destroy_cq(client.cq) == 0); }) ==
        Lines{strprintf("destroy_cq %u", cq), strprintf("destroy_uar %u", client.uar_of_cq)});
  CHECK(lines_of([&] { CHECK(ibv_dereg_mr(client.mr) == 0); }) ==
        Lines{strprintf("destroy_region %u", mr)});
  CHECK(lines_of([&] { CHECK(ibv_dealloc_pd(client.pd) == 0); }) ==
        Lines{strprintf("destroy_pd %u", pd)});
  CHECK(lines_of([&] { CHECK(ibv_close_device(client.context) == 0); }).empty());
}

TEST_CASE("what a client leaves is destroyed with its context, each kind before what it uses") {
  // Static, since nobody can free them once the context is closed.
  static const Client client;
  static DevxQueuePair devx(client.context);
  const Lines lines = lines_of([] { CHECK(ibv_close_device(client.context) == 0); });
  for (const auto& [call, number] :
       std::multimap<std::string, std::uint32_t>{{"qp", client.qp->handle},
                                                 {"qp", devx.qpn},
                                                 {"cq", client.cq->handle},
                                                 {"cq", devx.cqn},
                                                 {"region", client.mr->handle},
                                                 {"uar", client.uar_of_cq},
                                                 {"uar", client.uar_of_qp},
                                                 {"uar", devx.uar->page_id},
                                                 {"pd", client.pd->handle},
                                                 {"pd", devx.pdn}}) {
    const std::string line = strprintf("destroy_%s %u", call.c_str(), number);
    INFO(line);
    CHECK(std::ranges::count(lines, line) == 1);
  }
  CHECK(lines.size() == 11);  // and the shared receive queue
  const char* const order[] = {"destroy_qp",     "destroy_receives", "destroy_cq",
                               "destroy_region", "destroy_uar",      "destroy_pd"};
  CHECK(std::ranges::is_sorted(lines, {}, [&](const std::string& line) {
    return std::ranges::find(order, line.substr(0, line.find(' '))) - std::begin(order);
  }));
}

TEST_CASE("rights, order and overruns are the engine's as the client wants them") {
  const Client client;
  for (const int order : {0, int{IBV_ACCESS_RELAXED_ORDERING}}) {
    ibv_mr* mr = nullptr;
    const Lines lines = lines_of([&] {
      mr = ibv_reg_mr(client.pd, client.memory.get(), 64, kAll | IBV_ACCESS_MW_BIND | order);
    });
    REQUIRE(mr != nullptr);
    CHECK(lines == Lines{strprintf("create_region pd %u bytes 64 access %x", client.pd->handle,
                                   static_cast<unsigned>(kAll | order))});
    CHECK(ibv_dereg_mr(mr) == 0);
  }
  for (const std::uint32_t flags : {0u, std::uint32_t{IBV_CREATE_CQ_ATTR_SINGLE_THREADED},
                                    std::uint32_t{IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN}}) {
    ibv_cq_init_attr_ex wanted{};
    wanted.cqe = 3;
    wanted.comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS;
    wanted.flags = flags;
    ibv_cq_ex* cq = nullptr;
    const Lines lines = lines_of([&] { cq = ibv_create_cq_ex(client.context, &wanted); });
    REQUIRE(cq != nullptr);
    CHECK(has(lines, flags == IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN ? " oi 1 " : " oi 0 "));
    CHECK(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)) == 0);
  }
  CHECK(ibv_destroy_qp(client.qp) == 0);
  CHECK(ibv_destroy_srq(client.srq) == 0);
  CHECK(ibv_destroy_cq(client.cq) == 0);
  CHECK(ibv_dereg_mr(client.mr) == 0);
  CHECK(ibv_dealloc_pd(client.pd) == 0);
  CHECK(ibv_close_device(client.context) == 0);
}
