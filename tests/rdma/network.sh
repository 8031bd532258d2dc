# shellcheck shell=bash
# network.sh: included by what runs in the virtual machine. Two Soft-RoCE NICs, rxe0 and rxe1, on the two ends of a
# cable (veth: v0, v1), with the addresses 10.1.0.1 and 10.1.1.1.
uptime_s() { cut -d' ' -f1 /proc/uptime; }
say() { echo "== $* ($(uptime_s) s)"; }
die() { say "FAILED: $*"; exit 1; }

# Both ends belong to this one machine, which would reach itself without the cable. So packets that leave one end must
# be routed to the other, and the other must accept packets from a local address.
set_up_network() {
  ip link set lo up
  ip link add v0 type veth peer name v1 || return 1
  local i
  for i in 0 1; do
    ip link set v$i mtu 4500 up
    ip addr add 10.1.$i.1/24 dev v$i
  done
  for i in all v0 v1; do
    echo 1 > /proc/sys/net/ipv4/conf/$i/accept_local
    echo 0 > /proc/sys/net/ipv4/conf/$i/rp_filter
  done
  ip rule add pref 1000 lookup local
  ip rule del pref 0
  for i in 0 1; do
    local other=$((1 - i))
    ip rule add pref 1$i to 10.1.$other.1 oif v$i lookup 10$i
    ip route add 10.1.$other.1/32 dev v$i src 10.1.$i.1 table 10$i
    ip neigh add 10.1.$other.1 lladdr "$(cat /sys/class/net/v$other/address)" dev v$i
    rdma link add rxe$i type rxe netdev v$i || return 1
  done
}
