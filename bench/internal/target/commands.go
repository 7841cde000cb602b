package target

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
)

// Millrace is this project's server: an API server and its store, without control loops.
func Millrace(program string) Target {
	return Target{Name: "millrace", commands: func(p location) []*exec.Cmd {
		args := []string{"up", "--nodes", "0", "--controllers", "", "--no-scheduler", "--data", filepath.Join(p.dir, "data"), "--listen", p.address}
		return []*exec.Cmd{exec.Command(program, append(args, p.audit...)...)}
	}}
}

// Limit is the bare limit, served by the running program.
func Limit(self string) Target {
	return Target{Name: "limit", Bare: true, commands: func(p location) []*exec.Cmd {
		return []*exec.Cmd{exec.Command(self, "serve-limit", "--data", filepath.Join(p.dir, "data"), "--listen", p.address, "--pods", strconv.Itoa(p.pods))}
	}}
}

// Kubernetes is a kube-apiserver with etcd, with their defaults except for what would not be comparable: service
// accounts are not required, because no controller creates them here.
func Kubernetes(apiserver, etcd string) Target {
	return Target{Name: "kubernetes", commands: func(p location) []*exec.Cmd {
		client, peer := "http://"+p.ports[0], "http://"+p.ports[1]
		host, port, _ := net.SplitHostPort(p.address)
		store := exec.Command(etcd, "--data-dir", filepath.Join(p.dir, "etcd"), "--listen-client-urls", client, "--advertise-client-urls", client,
			"--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", "default="+peer, "--log-level", "error",
			"--quota-backend-bytes", strconv.Itoa(8<<30))
		file := func(name string) string { return filepath.Join(p.pki, name) }
		args := append([]string{"--etcd-servers", client, "--bind-address", host, "--advertise-address", host, "--secure-port", port,
			"--tls-cert-file", file("apiserver.crt"), "--tls-private-key-file", file("apiserver.key"), "--client-ca-file", file("ca.crt"),
			"--service-account-issuer", "https://kubernetes.default.svc.cluster.local", "--service-account-key-file", file("sa.key"),
			"--service-account-signing-key-file", file("sa.key"), "--service-cluster-ip-range", "10.96.0.0/16",
			"--authorization-mode", "RBAC", "--disable-admission-plugins", "ServiceAccount", "--cert-dir", filepath.Join(p.dir, "certificates")}, p.audit...)
		return []*exec.Cmd{store, exec.Command(apiserver, args...)}
	}}
}

// FindKubernetes finds the programs: the named ones, or those in the directory that envtest uses.
func FindKubernetes(apiserver, etcd string) (foundAPI, foundEtcd string, err error) {
	directory := os.Getenv("KUBEBUILDER_ASSETS")
	find := func(named, name string) (string, error) {
		if named == "" && directory == "" {
			return "", fmt.Errorf("%s is not named, and KUBEBUILDER_ASSETS is not set: %w", name, fs.ErrNotExist)
		}
		if named == "" {
			named = filepath.Join(directory, name)
		}
		_, err := os.Stat(named)
		return named, err
	}
	foundAPI, errAPI := find(apiserver, "kube-apiserver")
	foundEtcd, errEtcd := find(etcd, "etcd")
	return foundAPI, foundEtcd, errors.Join(errAPI, errEtcd)
}
