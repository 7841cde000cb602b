package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/vishvananda/netlink"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/millrace/millrace/internal/network/services"
	"github.com/millrace/millrace/loop"
)

// insideVariable is set in the process of a test that has a network namespace of its own.
const insideVariable = "MILLRACE_TEST_INSIDE"

// inNamespace runs the rest of a test in a process with a network namespace of its own. The caller returns if that has
// happened.
func inNamespace(t *testing.T) (done bool) {
	t.Helper()
	if os.Getenv(insideVariable) != "" {
		lo, err := netlink.LinkByName("lo")
		if err != nil {
			t.Fatal(err)
		}
		address, err := netlink.ParseAddr(proxyNode + "/32")
		if err == nil {
			err = netlink.AddrAdd(lo, address)
		}
		if err == nil {
			err = netlink.LinkSetUp(lo)
		}
		if err == nil {
			_, services, _ := net.ParseCIDR("10.96.0.0/16")
			err = netlink.RouteAdd(&netlink.Route{LinkIndex: lo.Attrs().Index, Dst: services, Src: net.ParseIP(proxyNode)})
		}
		if err != nil {
			t.Fatal(err)
		}
		return false
	}
	if os.Getuid() != 0 {
		t.Skip("network namespaces need root")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := exec.CommandContext(t.Context(), self, "-test.run", "^"+t.Name()+"$", "-test.v")
	c.Env = append(os.Environ(), insideVariable+"=yes")
	c.Stdout, c.Stderr = t.Output(), t.Output()
	c.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
	if err := c.Run(); err != nil {
		t.Fatal(err)
	}
	return true
}

// The addresses of the node and of the service.
const (
	proxyNode    = "10.0.0.1"
	proxyService = "10.96.0.77:80"
)

// proxyProcess is `millrace proxy` in its own process.
type proxyProcess struct {
	*testing.T
	process *exec.Cmd
}

func startProxy(t *testing.T, config string) *proxyProcess {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p := &proxyProcess{T: t, process: &exec.Cmd{
		Path: self, Args: []string{"millrace", "proxy", "--config", config, "--hostname-override", "here"}, Stdout: t.Output(), Stderr: t.Output(),
		SysProcAttr: &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL},
	}}
	if err := p.process.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.kill)
	eventually(t, "the proxy is healthy", func() bool {
		code, _ := page("http://127.0.0.1:10256/healthz")
		return code == http.StatusOK
	})
	return p
}

// kill ends the process as `kill -9` does.
func (p *proxyProcess) kill() {
	if p.process.ProcessState == nil {
		_ = p.process.Process.Kill()
		_ = p.process.Wait() // the error is that it was killed
	}
}

// eventually waits until a condition holds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("it does not come that %s", what)
		}
	}
}

// page gets a page of the proxy. The code is 0 if nothing answers.
func page(url string) (code int, body string) {
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 30 * time.Second}
	r, err := client.Get(url)
	if err != nil {
		return 0, err.Error()
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if err != nil {
		return 0, err.Error()
	}
	return r.StatusCode, string(text)
}

// answering makes an endpoint that answers with a word. It returns its port.
func answering(t *testing.T, word string) int32 {
	t.Helper()
	l, err := net.Listen("tcp", proxyNode+":0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			fmt.Fprint(c, word)
			c.Close()
		}
	}()
	return int32(l.Addr().(*net.TCPAddr).Port)
}

// ask connects to the service and returns the word of its endpoint, or why there is none.
func ask() string {
	c, err := net.DialTimeout("tcp", proxyService, 30*time.Second)
	if err != nil {
		return err.Error()
	}
	defer c.Close()
	text, err := io.ReadAll(c)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// endpointAt is the slice of the service with an endpoint on the node.
func endpointAt(port int32) *discoveryv1.EndpointSlice {
	return &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{Name: "web-1", Labels: map[string]string{discoveryv1.LabelServiceName: "web"},
			Annotations: map[string]string{corev1.EndpointsLastChangeTriggerTime: time.Now().Format(time.RFC3339Nano)}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Endpoints:   []discoveryv1.Endpoint{{Addresses: []string{proxyNode}}},
		Ports:       []discoveryv1.EndpointPort{{Name: new(string), Port: &port}},
	}
}

// proxied starts an API server with a node and a service with an endpoint, and writes a configuration for the proxy.
func proxied(t *testing.T, port int32) (kube *kubernetes.Clientset, config string) {
	t.Helper()
	directory := t.TempDir()
	kubeconfig := filepath.Join(directory, "kubeconfig")
	server := begin(t, "apiserver", "--data", directory, "--kubeconfig", kubeconfig, "--storage-backend", "memory", "--bind-address", "127.0.0.1", "--secure-port", "0")
	kube = connect(t, server.kubeconfig(t))
	ctx := t.Context()
	_, err := kube.CoreV1().Nodes().Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "here"}, Status: corev1.NodeStatus{
		Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: proxyNode}},
	}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = kube.CoreV1().Services("default").Create(ctx, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: corev1.ServiceSpec{
		ClusterIP: "10.96.0.77", Ports: []corev1.ServicePort{{Port: 80}},
	}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := kube.DiscoveryV1().EndpointSlices("default").Create(ctx, endpointAt(port), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	config = filepath.Join(directory, "proxy.yaml")
	text := "apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\nclientConnection: {kubeconfig: " + kubeconfig + "}\n" +
		"conntrack: {maxPerCore: 0, tcpCloseWaitTimeout: 77s}\noomScoreAdj: 5\n"
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return kube, config
}

func TestServicesWorkWithoutAGapWhenTheProxyIsKilledAndStartedAgain(t *testing.T) {
	if inNamespace(t) {
		return
	}
	first, second := answering(t, "first"), answering(t, "second")
	kube, config := proxied(t, first)
	p := startProxy(t, config)
	eventually(t, "the service works", func() bool { return ask() == "first" })

	asking, stop := context.WithCancel(t.Context())
	asked := make(chan string)
	go func() {
		defer close(asked)
		for asking.Err() == nil {
			if word := ask(); word != "first" {
				asked <- word
			}
		}
	}()
	p.kill()
	startProxy(t, config)
	stop()
	for word := range asked {
		t.Errorf("while the proxy was away the service answered %q", word)
	}
	if _, err := kube.DiscoveryV1().EndpointSlices("default").Update(t.Context(), endpointAt(second), metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the new process writes changes", func() bool { return ask() == "second" })
}

func TestTheProxyServesWhatKubeProxyServes(t *testing.T) {
	if inNamespace(t) {
		return
	}
	first, second := answering(t, "first"), answering(t, "second")
	kube, config := proxied(t, first)
	p := startProxy(t, config)
	for path, says := range map[string]string{
		":10256/healthz": `"nodeEligible":true,"healthy":true,"status":{"IPv4":{"lastUpdated":`, ":10256/livez": `"healthy":true`,
		":10249/healthz": "ok", ":10249/proxyMode": "nftables", ":10249/configz": `"tcpCloseWaitTimeout":"1m17s"`,
		":10249/metrics": `kubeproxy_sync_full_proxy_rules_duration_seconds_count{ip_family="IPv4"} 1`,
	} {
		if code, body := page("http://127.0.0.1" + path); code != http.StatusOK || !strings.Contains(body, says) {
			t.Errorf("%s answers %d: %s", path, code, body)
		}
	}
	if _, err := kube.DiscoveryV1().EndpointSlices("default").Update(t.Context(), endpointAt(second), metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the time until a change is written is measured", func() bool {
		_, body := page("http://127.0.0.1:10249/metrics")
		return strings.Contains(body, `kubeproxy_network_programming_duration_seconds_count{ip_family="IPv4"} 1`)
	})
	for file, want := range map[string]string{
		"/proc/sys/net/netfilter/nf_conntrack_tcp_timeout_close_wait": "77", fmt.Sprintf("/proc/%d/oom_score_adj", p.process.Process.Pid): "5",
	} {
		if text, err := os.ReadFile(file); err != nil || strings.TrimSpace(string(text)) != want {
			t.Errorf("%s is %q, want %s (%v)", file, text, want, err)
		}
	}
	node, err := kube.CoreV1().Nodes().Get(t.Context(), "here", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	node.Spec.Taints = []corev1.Taint{{Key: "ToBeDeletedByClusterAutoscaler", Effect: corev1.TaintEffectNoSchedule}}
	if _, err := kube.CoreV1().Nodes().Update(t.Context(), node, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a node that is removed gets no traffic", func() bool {
		code, body := page("http://127.0.0.1:10256/healthz")
		var answer struct{ NodeEligible, Healthy bool }
		return code == http.StatusServiceUnavailable && json.Unmarshal([]byte(body), &answer) == nil && !answer.NodeEligible && answer.Healthy
	})
	if code, body := page("http://127.0.0.1:10256/livez"); code != http.StatusOK {
		t.Errorf("/livez answers %d: %s", code, body)
	}
}

func TestTheProxyHasTheMetricsOfKubernetes(t *testing.T) {
	registry := prometheus.NewRegistry()
	if _, err := services.NewMetrics(registry); err != nil {
		t.Fatal(err)
	}
	proxy, err := services.New(services.Options{Clients: loop.ClientsFor(fake.NewClientset()), Node: "n"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := proxy.Health(registry); err != nil {
		t.Fatal(err)
	}
	compareMetrics(t, "kube-proxy", registry)
}
