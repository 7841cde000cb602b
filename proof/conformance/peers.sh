#!/usr/bin/env bash
# Kubernetes' own control plane with hollow nodes of this repository, to compare: etcd, kube-apiserver, kube-controller-manager and kube-scheduler on
# loopback, with RBAC.
#
#   proof/conformance/peers.sh start DIRECTORY BINARIES    starts it and prints the lines that set KUBECONFIG, and PIDS for --measure
#   proof/conformance/peers.sh stop DIRECTORY              ends it, by process id
#
# Needs openssl. Logs are in DIRECTORY.
set -euo pipefail

here=$(cd "$(dirname "$0")/../.." && pwd)
verb=${1:-}
dir=$(mkdir -p "${2:?a directory}" && cd "$2" && pwd)
port=${PEERS_PORT:-26443}

keep() { # keep NAME COMMAND…
	"${@:2}" >"$dir/$1.log" 2>&1 &
	echo $! >"$dir/$1.pid"
}

signed() { # signed NAME SUBJECT [EXTENSION] makes a key, and a certificate by the cluster's authority
	openssl req -newkey rsa:2048 -nodes -keyout "$dir/$1.key" -subj "$2" -out "$dir/$1.csr" 2>/dev/null
	openssl x509 -req -in "$dir/$1.csr" -CA "$dir/ca.crt" -CAkey "$dir/ca.key" -CAcreateserial -days 30 -out "$dir/$1.crt" \
		-extfile <(echo "${3:-extendedKeyUsage=clientAuth}") 2>/dev/null
}

kubeconfig() { # kubeconfig NAME
	cat <<CONFIG
apiVersion: v1
kind: Config
current-context: c
contexts: [{name: c, context: {cluster: c, user: u}}]
clusters: [{name: c, cluster: {server: "https://127.0.0.1:$port", certificate-authority: $dir/ca.crt}}]
users: [{name: u, user: {client-certificate: $dir/$1.crt, client-key: $dir/$1.key}}]
CONFIG
}

start() {
	local bin=$1
	(cd "$here" && go build -o "$dir/millrace" ./cmd/millrace)
	rm -rf "$dir/etcd"
	openssl req -x509 -newkey rsa:2048 -nodes -keyout "$dir/ca.key" -subj /CN=ca -days 30 -out "$dir/ca.crt" 2>/dev/null
	signed server /CN=kube-apiserver "subjectAltName=IP:127.0.0.1,IP:10.96.0.1,DNS:localhost,DNS:kubernetes.default.svc"
	signed admin /O=system:masters/CN=admin
	signed controllers /CN=system:kube-controller-manager
	signed scheduler /CN=system:kube-scheduler
	signed proxy /CN=front-proxy
	for user in admin controllers scheduler; do kubeconfig $user >"$dir/$user.kubeconfig"; done
	keep etcd "$bin/etcd" --data-dir "$dir/etcd" --listen-client-urls "http://127.0.0.1:$((port + 1))" --advertise-client-urls "http://127.0.0.1:$((port + 1))" \
		--listen-peer-urls "http://127.0.0.1:$((port + 2))"
	keep kube-apiserver "$bin/kube-apiserver" --etcd-servers "http://127.0.0.1:$((port + 1))" --bind-address 127.0.0.1 --secure-port "$port" \
		--tls-cert-file "$dir/server.crt" --tls-private-key-file "$dir/server.key" --client-ca-file "$dir/ca.crt" --authorization-mode Node,RBAC \
		--allow-privileged --service-cluster-ip-range 10.96.0.0/16 --service-account-issuer https://kubernetes.default.svc \
		--service-account-key-file "$dir/server.key" --service-account-signing-key-file "$dir/server.key" \
		--kubelet-client-certificate "$dir/admin.crt" --kubelet-client-key "$dir/admin.key" \
		--requestheader-client-ca-file "$dir/ca.crt" --requestheader-allowed-names front-proxy --requestheader-username-headers X-Remote-User --requestheader-group-headers X-Remote-Group \
		--requestheader-extra-headers-prefix X-Remote-Extra- --proxy-client-cert-file "$dir/proxy.crt" --proxy-client-key-file "$dir/proxy.key"
	for _ in $(seq 600); do
		"$dir/millrace" kubectl --kubeconfig "$dir/admin.kubeconfig" get --raw /readyz >/dev/null 2>&1 && break
		sleep 0.1
	done
	keep kube-controller-manager "$bin/kube-controller-manager" --kubeconfig "$dir/controllers.kubeconfig" --secure-port "$((port + 3))" \
		--service-account-private-key-file "$dir/server.key" --root-ca-file "$dir/ca.crt" --use-service-account-credentials \
		--cluster-signing-cert-file "$dir/ca.crt" --cluster-signing-key-file "$dir/ca.key" \
		--authentication-kubeconfig "$dir/controllers.kubeconfig" --authorization-kubeconfig "$dir/controllers.kubeconfig"
	keep kube-scheduler "$bin/kube-scheduler" --kubeconfig "$dir/scheduler.kubeconfig" --secure-port "$((port + 4))" \
		--authentication-kubeconfig "$dir/scheduler.kubeconfig" --authorization-kubeconfig "$dir/scheduler.kubeconfig"
	keep nodes "$dir/millrace" kubelet --nodes 3 --kubeconfig "$dir/admin.kubeconfig" --client-ca-file "$dir/ca.crt"
	"$dir/millrace" kubectl --kubeconfig "$dir/admin.kubeconfig" wait --for=create node/hollow-2 --timeout=60s >&2 || true
	"$dir/millrace" kubectl --kubeconfig "$dir/admin.kubeconfig" wait --for=condition=Ready node --all --timeout=60s >&2
	echo "export KUBECONFIG=$dir/admin.kubeconfig PIDS=$(cat "$dir"/{etcd,kube-apiserver,kube-controller-manager,kube-scheduler}.pid | paste -sd,)"
}

stop() {
	for name in nodes kube-scheduler kube-controller-manager kube-apiserver etcd; do
		[ -f "$dir/$name.pid" ] || continue
		kill "$(cat "$dir/$name.pid")" 2>/dev/null || true
		for _ in $(seq 300); do
			kill -0 "$(cat "$dir/$name.pid")" 2>/dev/null || break
			sleep 0.1
		done
		rm -f "$dir/$name.pid"
	done
}

case $verb in
start) start "${3:?the directory of the binaries}" ;;
stop) stop ;;
*)
	echo "usage: peers.sh start DIRECTORY BINARIES | stop DIRECTORY" >&2
	exit 2
	;;
esac
