package network_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/network"
	"github.com/millrace/millrace/internal/network/internal/nettest"
	"github.com/millrace/millrace/internal/network/pods"
	"github.com/millrace/millrace/loop"
	"github.com/millrace/millrace/millracetest"
)

// nodeVariable has the settings of a node's process. Each node is a process of its own, because the parts of the
// network start goroutines, and a network namespace belongs to a thread.
const nodeVariable = "MILLRACE_TEST_NODE"

func TestMain(m *testing.M) {
	text := os.Getenv(nodeVariable)
	if text == "" {
		os.Exit(m.Run())
	}
	if err := runNode(text); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// settings are what a node's process must know.
type settings struct {
	Name, Kubeconfig, Directory string
	Address                     netip.Addr
}

func runNode(text string) error {
	var s settings
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	config, err := clientcmd.BuildConfigFromFlags("", s.Kubeconfig)
	if err != nil {
		return err
	}
	clients, err := loop.NewClients(config, slog.New(slog.NewTextHandler(os.Stderr, nil)))
	if err != nil {
		return err
	}
	node, err := network.New(network.Options{
		Clients: clients, Node: s.Name, Address: s.Address, DNS: netip.MustParseAddr(dnsAddress), Domain: "cluster.local",
		ClusterCIDRs:           []netip.Prefix{netip.MustParsePrefix("10.244.0.0/16"), netip.MustParsePrefix("fd01::/16")},
		ConfigurationDirectory: s.Directory + "/net.d", PluginDirectory: s.Directory + "/bin", Directory: s.Directory + "/state", Logger: clients.Log,
	})
	if err != nil {
		return err
	}
	return loop.Run(ctx, clients, node)
}

const dnsAddress = "10.96.0.10"

// cluster is an API server, two nodes behind a router, and a machine outside, whose packets to the cluster pass the
// router too.
type cluster struct {
	*testing.T
	kube          *kubernetes.Clientset
	api           *millrace.Cluster
	world, router *nettest.Namespace
	a, b          *node
}

// node is a node in a network namespace.
type node struct {
	name      string
	address   string
	address6  string // of its link, and not in the API
	net       *nettest.Namespace
	directory string
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	c := &cluster{T: t, world: nettest.New(t), router: nettest.New(t)}
	c.api = millracetest.Start(t, millrace.Options{Controllers: []string{}, NoScheduler: true, ServiceRange: "10.96.0.0/16,fd02::/108"})
	c.kube = millracetest.Clientset(t, c.api)
	nettest.Join(c.world, "eth0", []string{"10.0.9.1/24", "fd00:9::1/64"}, c.router, "world", []string{"10.0.9.254/24", "fd00:9::254/64"})
	c.world.Route("0.0.0.0/0", "10.0.9.254")
	c.world.Route("::/0", "fd00:9::254")
	c.must(c.kube.CoreV1().ServiceAccounts("default").Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default"}}, metav1.CreateOptions{}))
	c.a, c.b = c.node("a", 1), c.node("b", 2)
	return c
}

func (c *cluster) must(_ any, err error) {
	c.Helper()
	if err != nil {
		c.Fatal(err)
	}
}

// node adds a node, and runs its network until the test ends.
func (c *cluster) node(name string, number int) *node {
	c.Helper()
	n := &node{name: name, address: fmt.Sprintf("10.0.%d.1", number), address6: fmt.Sprintf("fd00:%d::1", number), net: nettest.New(c), directory: c.TempDir()}
	gateway, gateway6 := fmt.Sprintf("10.0.%d.254", number), fmt.Sprintf("fd00:%d::254", number)
	nettest.Join(n.net, "eth0", []string{n.address + "/24", n.address6 + "/64"}, c.router, name, []string{gateway + "/24", gateway6 + "/64"})
	n.net.Route("0.0.0.0/0", gateway)
	n.net.Route("::/0", gateway6)
	made, err := c.kube.CoreV1().Nodes().Create(c.Context(), &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.NodeSpec{PodCIDR: fmt.Sprintf("10.244.%d.0/24", number),
			PodCIDRs: []string{fmt.Sprintf("10.244.%d.0/24", number), fmt.Sprintf("fd01:%d::/64", number)}},
	}, metav1.CreateOptions{})
	c.must(nil, err)
	c.setAddresses(made.Name, n.address)
	text, err := json.Marshal(settings{Name: name, Kubeconfig: c.kubeconfig(n), Directory: n.directory, Address: netip.MustParseAddr(n.address)})
	c.must(nil, err)
	ctx, cancel := context.WithCancel(c.Context())
	n.net.Go(func() error {
		process := exec.CommandContext(ctx, os.Args[0])
		process.Env, process.Stderr = append(os.Environ(), nodeVariable+"="+string(text)), c.Output()
		process.Cancel = func() error { return process.Process.Signal(os.Interrupt) }
		process.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		if err := process.Run(); err != nil && !errors.Is(err, context.Canceled) {
			return fmt.Errorf("the process of node %s: %w", name, err)
		}
		return nil
	})
	c.Cleanup(cancel)
	return n
}

// setAddresses sets a node's addresses in the API.
func (c *cluster) setAddresses(name string, addresses ...string) {
	c.Helper()
	n, err := c.kube.CoreV1().Nodes().Get(c.Context(), name, metav1.GetOptions{})
	c.must(nil, err)
	n.Status.Addresses = nil
	for _, a := range addresses {
		n.Status.Addresses = append(n.Status.Addresses, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: a})
	}
	c.must(c.kube.CoreV1().Nodes().UpdateStatus(c.Context(), n, metav1.UpdateOptions{}))
}

// kubeconfig makes the API server reachable on the node's loopback, and returns the file for it.
func (c *cluster) kubeconfig(n *node) string {
	c.Helper()
	server := strings.TrimPrefix(c.api.URL(), "https://")
	n.net.Do(func() error {
		l, err := net.Listen("tcp", server)
		if err != nil {
			return err
		}
		c.Cleanup(func() { l.Close() })
		go relay(l, server)
		return nil
	})
	path := filepath.Join(n.directory, "kubeconfig")
	c.must(nil, os.WriteFile(path, c.api.Kubeconfig(), 0o600))
	return path
}

// relay connects what a listener accepts with a server, until the listener is closed.
func relay(l net.Listener, server string) {
	for {
		in, err := l.Accept()
		if err != nil {
			return
		}
		out, err := net.Dial("tcp", server)
		if err != nil {
			in.Close()
			continue
		}
		for from, to := range map[net.Conn]net.Conn{in: out, out: in} {
			go func() {
				_, _ = io.Copy(to, from)
				to.Close()
			}()
		}
	}
}

// pod makes a pod that answers on port 8080 with its name and the client's address.
func (c *cluster) pod(n *node, name string) *pod {
	c.Helper()
	p := &pod{name: name, net: nettest.New(c)}
	p.addresses = c.add(n, name, p.net)
	p.net.Do(func() error {
		l, err := net.Listen("tcp", ":8080")
		if err != nil {
			return err
		}
		c.Cleanup(func() { l.Close() })
		go answer(l, name)
		return nil
	})
	made, err := c.kube.CoreV1().Pods("default").Create(c.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": name}},
		Spec:       corev1.PodSpec{NodeName: n.name, Containers: []corev1.Container{{Name: "c", Image: "example.com/c:1"}}},
	}, metav1.CreateOptions{})
	c.must(nil, err)
	made.Status.Phase = corev1.PodRunning
	for _, a := range p.addresses {
		made.Status.PodIPs = append(made.Status.PodIPs, corev1.PodIP{IP: a.String()})
	}
	made.Status.PodIP = p.addresses[0].String()
	c.must(c.kube.CoreV1().Pods("default").UpdateStatus(c.Context(), made, metav1.UpdateOptions{}))
	return p
}

type pod struct {
	name      string
	net       *nettest.Namespace
	addresses []netip.Addr // IPv4, IPv6
}

func answer(l net.Listener, name string) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		host, _, _ := net.SplitHostPort(conn.RemoteAddr().String())
		fmt.Fprintf(conn, "%s for %s", name, host)
		conn.Close()
	}
}

// longest is how long a test waits for what must come.
const longest = 60 * time.Second

// add calls the CNI plugin with the node's configuration, as a runtime does.
func (c *cluster) add(n *node, container string, in *nettest.Namespace) []netip.Addr {
	c.Helper()
	var list struct {
		CNIVersion string            `json:"cniVersion"`
		Name       string            `json:"name"`
		Plugins    []json.RawMessage `json:"plugins"`
	}
	c.eventually("node "+n.name+" has a CNI configuration", func() string {
		files, _ := filepath.Glob(n.directory + "/net.d/*")
		for _, file := range files {
			if text, err := os.ReadFile(file); err == nil && json.Unmarshal(text, &list) == nil && len(list.Plugins) > 0 {
				return ""
			}
		}
		return fmt.Sprint(files)
	})
	var configuration pods.Configuration
	c.must(nil, json.Unmarshal(list.Plugins[0], &configuration))
	configuration.CNIVersion, configuration.Name = list.CNIVersion, list.Name
	text, err := json.Marshal(configuration)
	c.must(nil, err)
	env := map[string]string{"CNI_COMMAND": "ADD", "CNI_CONTAINERID": container, "CNI_IFNAME": "eth0", "CNI_NETNS": fmt.Sprintf("/proc/self/fd/%d", in.Handle())}
	var out bytes.Buffer
	n.net.Do(func() error {
		if code := pods.Plugin(func(name string) string { return env[name] }, bytes.NewReader(text), &out); code != 0 {
			return errors.New(out.String())
		}
		return nil
	})
	var result struct {
		IPs []struct{ Address netip.Prefix }
	}
	c.must(nil, json.Unmarshal(out.Bytes(), &result))
	var all []netip.Addr
	for _, ip := range result.IPs {
		all = append(all, ip.Address.Addr())
	}
	if len(all) != 2 {
		c.Fatalf("pod %s has the addresses %v, want one of each family", container, all)
	}
	return all
}

// service creates a service whose endpoint is the given pod, in each family of the service.
func (c *cluster) service(name string, change func(*corev1.ServiceSpec), endpoint *pod, on *node) *corev1.Service {
	c.Helper()
	s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Name: "http", Port: 80}}}}
	change(&s.Spec)
	s, err := c.kube.CoreV1().Services("default").Create(c.Context(), s, metav1.CreateOptions{})
	c.must(nil, err)
	port, portName, tcp, ready := int32(8080), "http", corev1.ProtocolTCP, true
	for _, family := range s.Spec.IPFamilies {
		address := endpoint.addresses[0]
		if family == corev1.IPv6Protocol {
			address = endpoint.addresses[1]
		}
		c.must(c.kube.DiscoveryV1().EndpointSlices("default").Create(c.Context(), &discoveryv1.EndpointSlice{
			ObjectMeta:  metav1.ObjectMeta{GenerateName: name + "-", Labels: map[string]string{discoveryv1.LabelServiceName: name}},
			AddressType: discoveryv1.AddressType(family),
			Endpoints: []discoveryv1.Endpoint{{
				Addresses: []string{address.String()}, NodeName: &on.name, Conditions: discoveryv1.EndpointConditions{Ready: &ready, Serving: &ready},
			}},
			Ports: []discoveryv1.EndpointPort{{Name: &portName, Port: &port, Protocol: &tcp}},
		}, metav1.CreateOptions{}))
	}
	return s
}

// eventually repeats a check until it finds nothing wrong.
func (c *cluster) eventually(what string, wrong func() string) {
	c.Helper()
	last := ""
	for end := time.Now().Add(longest); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if last = wrong(); last == "" {
			return
		}
	}
	c.Fatalf("%s: still not so: %s", what, last)
}

// says connects until the other side says what is wanted; the empty text stands for no connection.
func (c *cluster) says(from *nettest.Namespace, to, want string) {
	c.Helper()
	c.eventually(to+" answers "+want, func() string {
		got := get(from, to)
		if got == want || want == "" && !strings.Contains(got, " for ") {
			return ""
		}
		return "it answers " + got
	})
}

func get(from *nettest.Namespace, to string) string {
	var text []byte
	if err := from.Try(func() error {
		conn, err := net.DialTimeout("tcp", to, 2*time.Second)
		if err != nil {
			return err
		}
		defer conn.Close()
		_ = conn.SetDeadline(time.Now().Add(longest))
		text, err = io.ReadAll(conn)
		return err
	}); err != nil {
		return err.Error()
	}
	return string(text)
}

func at(address fmt.Stringer, port int) string {
	return net.JoinHostPort(address.String(), fmt.Sprint(port))
}
