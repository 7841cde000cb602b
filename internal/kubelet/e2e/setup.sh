#!/bin/sh
# Sets up, and takes down, what the tests on real containers need: containerd and runc from the distribution, a private
# containerd with directories of its own, and images that are built here.
#
#   eval "$(internal/kubelet/e2e/setup.sh start)"   starts it and sets MILLRACE_CRI_SOCKET, for the tests
#   internal/kubelet/e2e/setup.sh stop      ends that containerd, by its process id, and removes its directory
#   internal/kubelet/e2e/setup.sh restart    ends and starts containerd only; containers go on running
#   internal/kubelet/e2e/setup.sh packages   installs what start would install, and nothing else
#   internal/kubelet/e2e/setup.sh image NAME    makes one more image
#   internal/kubelet/e2e/setup.sh network on|off    configures the pods' network (CNI: bridge, host-local, portmap), as start does, or takes it away
#
# MILLRACE_E2E_DIR is the directory of all of it. With MILLRACE_E2E_NETWORK=own the pods' network is left to whoever uses the runtime: its
# configuration belongs in the directory cni of that directory, and its plugins in the directory plugins.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
root=${MILLRACE_E2E_DIR:-${TMPDIR:-/tmp}/millrace-e2e}
socket=$root/containerd.sock
bridge=millrace-e2e
plugins=/usr/lib/cni
[ "${MILLRACE_E2E_NETWORK:-bridge}" = bridge ] || plugins=$root/plugins

packages() {
	if command -v containerd >/dev/null && command -v runc >/dev/null && command -v busybox >/dev/null &&
		command -v iptables >/dev/null && [ -x /usr/lib/cni/bridge ]; then
		return
	fi
	apt-get update >/dev/null
	apt-get install -y --no-install-recommends containerd runc busybox-static containernetworking-plugins iptables iproute2 >/dev/null
}

configure() {
	mkdir -p "$root/root" "$root/state" "$root/opt" "$root/cni" "$root/plugins" "$root/images"
	cat >"$root/config.toml" <<CONFIG
version = 2
root = "$root/root"
state = "$root/state"
[grpc]
  address = "$socket"
[plugins."io.containerd.internal.v1.opt"]
  path = "$root/opt"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "localhost/pause:1"
  disable_apparmor = true
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    conf_dir = "$root/cni"
    bin_dir = "$plugins"
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "${MILLRACE_E2E_SNAPSHOTTER:-overlayfs}"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
        SystemdCgroup = false
CONFIG
}

launch() {
	nohup containerd --config "$root/config.toml" >>"$root/containerd.log" 2>&1 &
	echo $! >"$root/containerd.pid"
	i=0
	until ctr --address "$socket" version >/dev/null 2>&1; do
		i=$((i + 1))
		if [ $i -gt 100 ]; then
			echo "containerd did not start; see $root/containerd.log" >&2
			exit 1
		fi
		sleep 0.1
	done
}

images() {
	(
		cd "$here"
		CGO_ENABLED=0 go build -trimpath -ldflags=-s -o "$root/images/pause" ./pause
		go build -o "$root/images/image" ./image
		go build -o "$root/images/empty" ./empty
	)
	"$root/images/image" -program "$root/images/pause" -name localhost/pause:1 -out "$root/images/pause.tar"
	"$root/images/image" -program "$(command -v busybox)" -name localhost/box:1 -entrypoint /bin/sh -out "$root/images/box.tar"
	"$root/images/image" -program "$(command -v busybox)" -name localhost/box:2 -entrypoint /bin/sh -out "$root/images/box2.tar"
	for archive in pause box box2; do
		ctr --address "$socket" -n k8s.io images import "$root/images/$archive.tar" >/dev/null
	done
}

halt() {
	if [ -f "$root/containerd.pid" ]; then
		pid=$(cat "$root/containerd.pid")
		kill "$pid" 2>/dev/null || true
		i=0
		while kill -0 "$pid" 2>/dev/null && [ $i -lt 100 ]; do
			i=$((i + 1))
			sleep 0.1
		done
		rm -f "$root/containerd.pid"
	fi
}

clear_tasks() {
	if [ -S "$socket" ] && [ -x "$root/images/empty" ]; then
		"$root/images/empty" "$socket" || true # what it cannot end is ended below
	fi
	for container in $(ctr --address "$socket" -n k8s.io containers list -q 2>/dev/null); do
		ctr --address "$socket" -n k8s.io tasks kill -s KILL -a "$container" >/dev/null 2>&1 || true
		ctr --address "$socket" -n k8s.io tasks delete -f "$container" >/dev/null 2>&1 || true
		ctr --address "$socket" -n k8s.io containers delete "$container" >/dev/null 2>&1 || true
	done
}

network() {
	[ "${MILLRACE_E2E_NETWORK:-bridge}" = bridge ] || return 0
	if [ "$1" = on ]; then
		cat >"$root/cni/10-e2e.conflist" <<CNI
{"cniVersion": "0.4.0", "name": "$bridge", "plugins": [
  {"type": "bridge", "bridge": "$bridge", "isDefaultGateway": true, "hairpinMode": true,
   "ipam": {"type": "host-local", "dataDir": "$root/addresses", "ranges": [[{"subnet": "10.231.0.0/24"}]]}},
  {"type": "portmap", "capabilities": {"portMappings": true}, "snat": true}]}
CNI
		return
	fi
	rm -f "$root/cni/10-e2e.conflist"
	ip link delete "$bridge" 2>/dev/null || true
	# The chains that portmap leaves when the last port is free again.
	for chain in PREROUTING OUTPUT; do
		iptables -t nat -D $chain -m addrtype --dst-type LOCAL -j CNI-HOSTPORT-DNAT 2>/dev/null || true
	done
	iptables -t nat -D POSTROUTING -m comment --comment "CNI portfwd requiring masquerade" -j CNI-HOSTPORT-MASQ 2>/dev/null || true
	for chain in CNI-HOSTPORT-DNAT CNI-HOSTPORT-SETMARK CNI-HOSTPORT-MASQ; do
		iptables -t nat -F $chain 2>/dev/null && iptables -t nat -X $chain 2>/dev/null || true
	done
}

case "${1:-start}" in
start)
	packages
	configure
	network on
	[ -S "$socket" ] && ctr --address "$socket" version >/dev/null 2>&1 || launch
	images
	echo "export MILLRACE_CRI_SOCKET=$socket"
	;;
packages)
	packages
	;;
network)
	network "$2"
	;;
stop)
	clear_tasks
	network off
	halt
	# A containerd that is ended while it makes a sandbox may forget the process that it has started for it, which does not end when asked.
	pkill -KILL -f "^[^ ]*containerd-shim[^ ]* .*-address $socket" || true
	grep " $root/" /proc/self/mounts | cut -d' ' -f2 | sort -r | while read -r mount; do umount "$mount" 2>/dev/null || true; done
	rm -rf "$root"
	;;
image)
	"$root/images/image" -program "$(command -v busybox)" -name "$2" -entrypoint /bin/true -out "$root/images/more.tar"
	ctr --address "$socket" -n k8s.io images import "$root/images/more.tar" >/dev/null
	;;
restart)
	halt
	launch
	;;
*)
	echo "usage: setup.sh start | stop | restart | packages | image NAME | network on|off" >&2
	exit 2
	;;
esac
