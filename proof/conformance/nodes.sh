#!/usr/bin/env bash
# A cluster of two real nodes on one machine, for Kubernetes' own tests: each node has a containerd of its own, and namespaces of its own for the network,
# processes, mounts and the host name. Drivers of storage and devices find the kubelet of their node in /var/lib/kubelet, and the first process of their
# node as number 1. The first node runs `millrace up`; the second joins with `millrace kubelet` and `millrace network`.
#
#   proof/conformance/nodes.sh start DIRECTORY [COMMAND…]    starts it and prints a line that sets KUBECONFIG. COMMAND is run on each node, for
#                                                            example a registry that serves images on the node's loopback
#   proof/conformance/nodes.sh stop DIRECTORY                ends and removes everything, by process id
#
# With MILLRACE_NODES=1 (to 9) all names and addresses are others, so that several such clusters can run at a time.
#
# Needs root, and Debian's packages containerd, runc and iproute2 (it installs them). Logs are in DIRECTORY.
set -euo pipefail

here=$(cd "$(dirname "$0")/../.." && pwd)
verb=${1:-}
dir=$(mkdir -p "${2:?a directory}" && cd "$2" && pwd)
number=${MILLRACE_NODES:-}
bridge=millrace$number-nodes
subnet=10.230.${number:-0}
shortage='memory.available<100Mi,nodefs.available<4Gi,imagefs.available<4Gi' # not in percent: the tests do not need a seventh of a large disk

namespace() { echo "millrace$number-$1"; }
link() { echo "mr$number-node-$1"; }
address() { echo "$subnet.$1"; }
own() { echo "$dir/own-$1"; } # what a node has in the place of the machine's

# become NODE COMMAND… becomes the parent of a command in the namespaces of a node.
become() {
	local node=$1
	shift
	exec nsenter --target "$(cat "$dir/node-$node.pid")" --mount --uts --net --pid "$@"
}

# on NODE COMMAND… runs such a command.
on() { (become "$@"); }

# keep NAME NODE COMMAND… runs a command in the background, with its log and its process id in the directory.
keep() {
	local name=$1
	shift
	become "$@" >"$dir/$name.log" 2>&1 &
	note "$name" $!
}

# millrace NAME NODE ARGUMENT… keeps the program running. Its processes are called kubelet, by which a test finds the mounts of the kubelet.
millrace() {
	keep "$1" "$2" bash -c 'exec -a kubelet "$0" "$@"' "$dir/millrace" "${@:3}"
}

# note NAME PARENT waits until a process has its one child, and notes that one's process id.
note() {
	for _ in $(seq 300); do
		pgrep -P "$2" >"$dir/$1.pid" && return
		sleep 0.1
	done
	echo "$1 did not start; see $dir/$1.log" >&2
	return 1
}

end() { # end NAME [SIGNAL]
	local pid
	[ -f "$dir/$1.pid" ] || return 0
	pid=$(cat "$dir/$1.pid")
	kill -"${2:-TERM}" "$pid" 2>/dev/null || true
	for _ in $(seq 300); do
		kill -0 "$pid" 2>/dev/null || break
		sleep 0.1
	done
	rm -f "$dir/$1.pid"
}

runtime() { # runtime NODE VERB
	on "$1" env MILLRACE_E2E_DIR="$dir/node-$1" MILLRACE_E2E_NETWORK=own "$here/internal/kubelet/e2e/setup.sh" "$2"
}

# house NODE starts the first process of a node, with which all others end. Mounts of the node are shared with its containers, as on a machine of its own,
# and not with this machine.
house() {
	mkdir -p "$(own "$1")"/{kubelet,cdi} /var/lib/kubelet /run/cdi
	rm -f "$(own "$1")/ready"
	nsenter --net="/run/netns/$(namespace "$1")" unshare --mount --propagation private --uts --pid --fork --mount-proc bash -ec '
		mount --bind "$0/kubelet" /var/lib/kubelet
		mount --bind "$0/cdi" /run/cdi
		mount --make-rshared /
		hostname "$1"
		touch "$0/ready"
		while true; do # bash also waits for processes whose parents have ended
			sleep 1000 &
			wait $!
		done' "$(own "$1")" "node-$1" >"$dir/node-$1.log" 2>&1 &
	note "node-$1" $!
	for _ in $(seq 300); do
		[ -e "$(own "$1")/ready" ] && return
		sleep 0.1
	done
	echo "node $1 did not start; see $dir/node-$1.log" >&2
	return 1
}

links() {
	ip link add "$bridge" type bridge
	ip address add "$(address 254)/24" dev "$bridge"
	ip link set "$bridge" up
	for node in 1 2; do
		local ns
		ns=$(namespace "$node")
		ip netns add "$ns"
		ip link add "$(link "$node")" master "$bridge" type veth peer name eth0 netns "$ns"
		ip link set "$(link "$node")" up
		ip -n "$ns" link set lo up
		ip -n "$ns" address add "$(address "$node")/24" dev eth0
		ip -n "$ns" link set eth0 up
		ip -n "$ns" route add default via "$(address 254)"
	done
}

start() {
	command -v ip >/dev/null || { apt-get update >/dev/null && apt-get install -y --no-install-recommends iproute2 >/dev/null; }
	"$here/internal/kubelet/e2e/setup.sh" packages # here, because the nodes reach no network but their own
	[ ! -e "/run/netns/$(namespace 1)" ] || stop # what a script that was killed has left
	(cd "$here" && go build -o "$dir/millrace" ./cmd/millrace)
	links
	if [ -e "$dir/up.log" ] && [ -e "$dir/data/pki" ]; then # a cluster that this script started before
		rm -rf --one-file-system "$dir/data" "$dir"/node-[12]/network "$dir"/own-[12]
	fi
	for node in 1 2; do
		house "$node"
		runtime "$node" start >/dev/null
		[ $# = 0 ] || keep "registry-$node" "$node" "$@"
	done
	millrace up 1 up --data "$dir/data" --listen 0.0.0.0:6443 --allow-privileged --root-dir /var/lib/kubelet --eviction-hard "$shortage" \
		--runtime "cri:unix://$dir/node-1/containerd.sock" --cni-conf-dir "$dir/node-1/cni" --cni-bin-dir "$dir/node-1/plugins"
	local config=$dir/kubeconfig # the server's own names the loopback address of its node
	for _ in $(seq 300); do
		[ -s "$dir/data/kubeconfig" ] && sed "s/127\.0\.0\.1:6443/$(address 1):6443/" "$dir/data/kubeconfig" >"$config" &&
			"$dir/millrace" kubectl --kubeconfig "$config" get --raw /readyz >/dev/null 2>&1 && break
		sleep 0.1
	done
	millrace kubelet 2 kubelet --kubeconfig "$config" --hostname-override node-2 --node-ip "$(address 2)" --root-dir /var/lib/kubelet --eviction-hard "$shortage" \
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
		{ echo "the disk of $dir is too full: nodes with less than 4 GiB take no pods" >&2; return 1; }
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
			end "node-$node" KILL
			ip netns delete "$(namespace "$node")"
		fi
		rm -rf --one-file-system "$dir/node-$node" "$(own "$node")" # nothing is mounted below them here
		ip link delete "$(link "$node")" 2>/dev/null || true # it stays while a process is left in the namespace
	done
	ip link delete "$bridge" 2>/dev/null || true
	# Without the directory, what another cluster has mounted there would be gone too.
	compgen -G '/run/netns/millrace*-[12]' >/dev/null || rmdir --ignore-fail-on-non-empty /var/lib/kubelet /run/cdi 2>/dev/null || true
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
