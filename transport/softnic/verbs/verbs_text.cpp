// Asynchronous events, and names of numbers.
#include "transport/softnic/verbs/verbs_calls.h"

#include <unistd.h>

#include <cstring>

namespace gshmem::soft {
namespace {

struct Name {
  int value;
  const char* text;
};

template <std::size_t n>
const char* name_of(const Name (&names)[n], int value) {
  for (const Name& name : names)
    if (name.value == value) return name.text;
  return "unknown";
}

constexpr Name kNodeTypes[] = {{IBV_NODE_CA, "InfiniBand channel adapter"},
                               {IBV_NODE_SWITCH, "InfiniBand switch"},
                               {IBV_NODE_ROUTER, "InfiniBand router"},
                               {IBV_NODE_RNIC, "iWARP NIC"},
                               {IBV_NODE_USNIC, "usNIC"},
                               {IBV_NODE_USNIC_UDP, "usNIC UDP"},
                               {IBV_NODE_UNSPECIFIED, "unspecified"}};

constexpr Name kPortStates[] = {{IBV_PORT_NOP, "no state change (NOP)"},
                                {IBV_PORT_DOWN, "down"},
                                {IBV_PORT_INIT, "init"},
                                {IBV_PORT_ARMED, "armed"},
                                {IBV_PORT_ACTIVE, "active"},
                                {IBV_PORT_ACTIVE_DEFER, "active defer"}};

constexpr Name kEvents[] = {{IBV_EVENT_CQ_ERR, "CQ error"},
                            {IBV_EVENT_QP_FATAL, "queue pair failed"},
                            {IBV_EVENT_QP_REQ_ERR, "invalid request at a queue pair"},
                            {IBV_EVENT_QP_ACCESS_ERR, "access violation at a queue pair"},
                            {IBV_EVENT_COMM_EST, "communication established"},
                            {IBV_EVENT_SQ_DRAINED, "send queue drained"},
                            {IBV_EVENT_PATH_MIG, "path migrated"},
                            {IBV_EVENT_PATH_MIG_ERR, "path migration request error"},
                            {IBV_EVENT_DEVICE_FATAL, "device failed"},
                            {IBV_EVENT_PORT_ACTIVE, "port active"},
                            {IBV_EVENT_PORT_ERR, "port error"},
                            {IBV_EVENT_LID_CHANGE, "LID change"},
                            {IBV_EVENT_PKEY_CHANGE, "P_Key change"},
                            {IBV_EVENT_SM_CHANGE, "SM change"},
                            {IBV_EVENT_SRQ_ERR, "SRQ failed"},
                            {IBV_EVENT_SRQ_LIMIT_REACHED, "SRQ limit reached"},
                            {IBV_EVENT_QP_LAST_WQE_REACHED, "last WQE reached"},
                            {IBV_EVENT_CLIENT_REREGISTER, "client reregistration"},
                            {IBV_EVENT_GID_CHANGE, "GID table change"},
                            {IBV_EVENT_WQ_FATAL, "work queue failed"}};

constexpr Name kCompletions[] = {{IBV_WC_SUCCESS, "success"},
                                 {IBV_WC_LOC_LEN_ERR, "local length error"},
                                 {IBV_WC_LOC_QP_OP_ERR, "local QP operation error"},
                                 {IBV_WC_LOC_EEC_OP_ERR, "local EE context operation error"},
                                 {IBV_WC_LOC_PROT_ERR, "local protection error"},
                                 {IBV_WC_WR_FLUSH_ERR, "work request flushed"},
                                 {IBV_WC_MW_BIND_ERR, "memory window bind error"},
                                 {IBV_WC_BAD_RESP_ERR, "bad response error"},
                                 {IBV_WC_LOC_ACCESS_ERR, "local access error"},
                                 {IBV_WC_REM_INV_REQ_ERR, "remote invalid request error"},
                                 {IBV_WC_REM_ACCESS_ERR, "remote access error"},
                                 {IBV_WC_REM_OP_ERR, "remote operation error"},
                                 {IBV_WC_RETRY_EXC_ERR, "transport retry counter exceeded"},
                                 {IBV_WC_RNR_RETRY_EXC_ERR, "RNR retry counter exceeded"},
                                 {IBV_WC_LOC_RDD_VIOL_ERR, "local RDD violation error"},
                                 {IBV_WC_REM_INV_RD_REQ_ERR, "remote invalid RD request"},
                                 {IBV_WC_REM_ABORT_ERR, "aborted error"},
                                 {IBV_WC_INV_EECN_ERR, "invalid EE context number"},
                                 {IBV_WC_INV_EEC_STATE_ERR, "invalid EE context state"},
                                 {IBV_WC_FATAL_ERR, "fatal error"},
                                 {IBV_WC_RESP_TIMEOUT_ERR, "response timeout error"},
                                 {IBV_WC_GENERAL_ERR, "general error"},
                                 {IBV_WC_TM_ERR, "tag matching error"},
                                 {IBV_WC_TM_RNDV_INCOMPLETE, "tag matching rendezvous incomplete"}};

}  // namespace
}  // namespace gshmem::soft

using namespace gshmem::soft;

extern "C" {

const char* ibv_node_type_str(ibv_node_type type) { return name_of(kNodeTypes, type); }
const char* ibv_port_state_str(ibv_port_state state) { return name_of(kPortStates, state); }
const char* ibv_event_type_str(ibv_event_type event) { return name_of(kEvents, event); }
const char* ibv_wc_status_str(ibv_wc_status status) { return name_of(kCompletions, status); }

// It blocks until something happens, unless the client has made async_fd non-blocking.
int ibv_get_async_event(ibv_context* context, ibv_async_event* event) {
  char bytes[sizeof(ibv_async_event)];
  const ssize_t got = ::read(context->async_fd, bytes, sizeof(bytes));
  if (got == 0) errno = EIO;  // as of a device that is gone
  if (got != static_cast<ssize_t>(sizeof(bytes))) return -1;
  std::memcpy(event, bytes, sizeof(bytes));
  return 0;
}

void ibv_ack_async_event(ibv_async_event*) {}

}  // extern "C"
