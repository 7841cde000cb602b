#!/usr/bin/env bash
# A cluster of two real nodes on one machine, for Kubernetes' own tests: each node is a network namespace with a containerd of its own.
# The first runs `millrace up`; the second joins with `millrace kubelet` and `millrace network`.
#
#   proof/conformance/nodes.sh start DIRECTORY [COMMAND…]    starts it and prints a line that sets KUBECONFIG. COMMAND is run on each node, for
#                                                            example a registry that serves images on the node's loopback
#   proof/conformance/nodes.sh stop DIRECTORY                ends and removes everything, by process id
#
# Needs root, and Debian's packages containerd, runc and iproute2 (it installs them). Logs are in DIRECTORY.
set -euo pipefail

here=$(cd "$(dirname "$0")/../.." && pwd)
verb=${1:-}
dir=$(mkdir -p "${2:?a directory}" && cd "$2" && pwd)
bridge=millrace-nodes
subnet=10.230.0

namespace() { echo "millrace-$1"; }
address() { echo "$subnet.$1"; }

# become NODE COMMAND… becomes a command in the network and under the host name of a node.
become() {
	local node=$1
	shift
	exec nsenter --net="/run/netns/$(namespace "$node")" unshare --uts sh -c 'hostname "$0"; exec "$@"' "node-$node" "$@"
}

# on NODE COMMAND… runs such a command.
on() { (become "$@"); }

# keep NAME NODE COMMAND… runs a command in the background, with its log and its process id in the directory.
keep() {
	local name=$1 node=$2
	shift 2
	become "$node" "$@" >"$dir/$name.log" 2>&1 & # whose process id is the command's
	echo $! >"$dir/$name.pid"
}

end() { # end NAME
	local pid
	[ -f "$dir/$1.pid" ] || return 0
	pid=$(cat "$dir/$1.pid")
	kill "$pid" 2>/dev/null || true
	for _ in $(seq 300); do
		kill -0 "$pid" 2>/dev/null || break
		sleep 0.1
	done
	rm -f "$dir/$1.pid"
}

runtime() { # runtime NODE VERB
	on "$1" env MILLRACE_E2E_DIR="$dir/node-$1" MILLRACE_E2E_NETWORK=own "$here/kubelet/e2e/setup.sh" "$2"
}

links() {
	ip link add "$bridge" type bridge
	ip address add "$(address 254)/24" dev "$bridge"
	ip link set "$bridge" up
	for node in 1 2; do
		local ns
		ns=$(namespace "$node")
		ip netns add "$ns"
		ip link add "mr-node-$node" master "$bridge" type veth peer name eth0 netns "$ns"
		ip link set "mr-node-$node" up
		ip -n "$ns" link set lo up
		ip -n "$ns" address add "$(address "$node")/24" dev eth0
		ip -n "$ns" link set eth0 up
		ip -n "$ns" route add default via "$(address 254)"
	done
}

start() {
	command -v ip >/dev/null || { apt-get update >/dev/null && apt-get install -y --no-install-recommends iproute2 >/dev/null; }
	"$here/kubelet/e2e/setup.sh" packages # here, because the nodes reach no network but their own
	(cd "$here" && go build -o "$dir/millrace" ./cmd/millrace)
	links
	if [ -e "$dir/up.log" ] && [ -e "$dir/data/pki" ]; then # a cluster that this script started before
		rm -rf --one-file-system "$dir/data" "$dir"/node-[12]/kubelet "$dir"/node-[12]/network
	fi
	for node in 1 2; do
		runtime "$node" start >/dev/null
		[ $# = 0 ] || keep "registry-$node" "$node" "$@"
	done
	keep up 1 "$dir/millrace" up --data "$dir/data" --listen 0.0.0.0:6443 --allow-privileged \
		--runtime "cri:unix://$dir/node-1/containerd.sock" --cni-conf-dir "$dir/node-1/cni" --cni-bin-dir "$dir/node-1/plugins"
	local config=$dir/kubeconfig # the server's own names the loopback address of its node
	for _ in $(seq 300); do
		[ -s "$dir/data/kubeconfig" ] && sed "s/127\.0\.0\.1:6443/$(address 1):6443/" "$dir/data/kubeconfig" >"$config" &&
			"$dir/millrace" kubectl --kubeconfig "$config" get --raw /readyz >/dev/null 2>&1 && break
		sleep 0.1
	done
	keep kubelet 2 "$dir/millrace" kubelet --kubeconfig "$config" --hostname-override node-2 --node-ip "$(address 2)" --root-dir "$dir/node-2/kubelet" \
		--container-runtime-endpoint "unix://$dir/node-2/containerd.sock" --cluster-dns 10.96.0.10
	keep network 2 "$dir/millrace" network --kubeconfig "$config" --hostname-override node-2 --node-ip "$(address 2)" \
		--cni-conf-dir "$dir/node-2/cni" --cni-bin-dir "$dir/node-2/plugins" --root-dir "$dir/node-2/network"
	for node in 1 2; do
		for _ in $(seq 600); do
			"$dir/millrace" kubectl --kubeconfig "$config" get node "node-$node" >/dev/null 2>&1 && break
			sleep 0.1
		done
	done
	"$dir/millrace" kubectl --kubeconfig "$config" wait --for=condition=Ready node --all --timeout=60s >&2
	"$dir/millrace" kubectl --kubeconfig "$config" wait --for=condition=DiskPressure=False node --all --timeout=5s >&2 ||
		{ echo "the disk of $dir is too full: nodes on which less than 15 % are free take no pods" >&2; return 1; }
	echo "export KUBECONFIG=$config"
}

stop() {
	end network
	end kubelet
	end up
	for node in 1 2; do
		end "registry-$node"
		if [ -e "/run/netns/$(namespace "$node")" ]; then
			runtime "$node" stop || true
			ip netns delete "$(namespace "$node")"
		fi
		ip link delete "mr-node-$node" 2>/dev/null || true # it stays while a process is left in the namespace
	done
	ip link delete "$bridge" 2>/dev/null || true
}

case $verb in
start)
	shift 2
	start "$@"
	;;
stop)
	stop
	;;
*)
	echo "usage: nodes.sh start DIRECTORY [COMMAND…] | stop DIRECTORY" >&2
	exit 2
	;;
esac
