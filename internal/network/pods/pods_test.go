//go:build linux

package pods

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/millrace/millrace/internal/network/internal/nettest"
	"github.com/millrace/millrace/loop"
)

// machine is a node in a network namespace: an agent, and a runtime that calls the plugin.
type machine struct {
	*testing.T
	name      string
	net       *nettest.Namespace
	directory string
}

// cluster has machines whose agents know each other's nodes.
type cluster struct {
	*testing.T
	kube *fake.Clientset
}

func (c *cluster) machine(name string, address []string, ranges ...string) *machine {
	c.Helper()
	m := &machine{T: c.T, name: name, net: nettest.New(c), directory: c.TempDir()}
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.NodeSpec{PodCIDRs: ranges}}
	for _, a := range address {
		n.Status.Addresses = append(n.Status.Addresses, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: a})
	}
	if _, err := c.kube.CoreV1().Nodes().Create(c.Context(), n, metav1.CreateOptions{}); err != nil {
		c.Fatal(err)
	}
	return m
}

// run starts the machine's agent. Its links must exist.
func (c *cluster) run(m *machine) {
	clients := loop.ClientsFor(c.kube)
	agent, err := New(Options{Clients: clients, Node: m.name, ConfigurationDirectory: m.directory + "/net.d", PluginDirectory: m.directory + "/bin", Directory: m.directory + "/state", Program: os.Args[0], Interval: 50 * time.Millisecond})
	if err != nil {
		c.Fatal(err)
	}
	ctx, cancel := context.WithCancel(c.Context())
	informers := make(chan error, 1)
	go func() { informers <- clients.Run(ctx) }()
	m.net.Go(func() error { return agent.Run(ctx) })
	c.Cleanup(func() {
		cancel()
		<-informers
	})
	m.configuration()
}

// configuration waits for the agent's file.
func (m *machine) configuration() Configuration {
	m.Helper()
	var list struct {
		CNIVersion string          `json:"cniVersion"`
		Name       string          `json:"name"`
		Plugins    []Configuration `json:"plugins"`
	}
	for range 500 {
		text, err := os.ReadFile(filepath.Join(m.directory, "net.d", configurationFile))
		if err == nil {
			if err := json.Unmarshal(text, &list); err != nil {
				m.Fatal(err)
			}
			c := list.Plugins[0]
			c.CNIVersion, c.Name = list.CNIVersion, list.Name
			return c
		}
		if !errors.Is(err, os.ErrNotExist) {
			m.Fatal(err)
		}
		time.Sleep(10 * time.Millisecond)
	}
	m.Fatal("the agent writes no configuration")
	return Configuration{}
}

// call calls the plugin as a runtime does.
func (m *machine) call(command, container string, pod *nettest.Namespace, c Configuration) (*result, error) {
	m.Helper()
	in, err := json.Marshal(c)
	if err != nil {
		m.Fatal(err)
	}
	env := map[string]string{
		"CNI_COMMAND": command, "CNI_CONTAINERID": container, "CNI_IFNAME": "eth0",
		"CNI_ARGS": "IgnoreUnknown=1;K8S_POD_NAMESPACE=ns;K8S_POD_NAME=" + container + ";K8S_POD_UID=uid-" + container,
	}
	if c.Type == LoopbackName {
		env["CNI_IFNAME"] = "lo"
	}
	if pod != nil {
		env["CNI_NETNS"] = fmt.Sprintf("/proc/self/fd/%d", pod.Handle())
	}
	var out bytes.Buffer
	code := 0
	m.net.Do(func() error {
		code = Plugin(func(name string) string { return env[name] }, bytes.NewReader(in), &out)
		return nil
	})
	if code != 0 {
		return nil, errors.New(out.String())
	}
	r := &result{}
	if out.Len() > 0 {
		if err := json.Unmarshal(out.Bytes(), r); err != nil {
			m.Fatalf("%s answers %s: %v", command, out.String(), err)
		}
	}
	return r, nil
}

// pod makes a pod that answers on port 8080.
func (m *machine) pod(name string, ports ...PortMapping) (*nettest.Namespace, []netip.Addr) {
	m.Helper()
	pod := nettest.New(m)
	c := m.configuration()
	c.Runtime.PortMappings = ports
	r, err := m.call("ADD", name, pod, c)
	if err != nil {
		m.Fatal(err)
	}
	pod.Do(func() error {
		l, err := net.Listen("tcp", ":8080")
		if err != nil {
			return err
		}
		m.Cleanup(func() { l.Close() })
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				host, _, _ := net.SplitHostPort(c.RemoteAddr().String())
				fmt.Fprintf(c, "%s for %s", name, host)
				c.Close()
			}
		}()
		return nil
	})
	var all []netip.Addr
	for _, ip := range r.IPs {
		all = append(all, ip.Address.Addr())
	}
	return pod, all
}

// reaches connects until the answer is the wanted one: routes may take a moment.
func reaches(t *testing.T, from *nettest.Namespace, to string, want string) {
	t.Helper()
	var got string
	for range 100 {
		err := from.Try(func() error {
			c, err := net.DialTimeout("tcp", to, time.Second)
			if err != nil {
				return err
			}
			defer c.Close()
			text, err := io.ReadAll(c)
			got = string(text)
			return err
		})
		if err != nil {
			got = err.Error()
		}
		if got == want {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Fatalf("%s answers %q, want %q", to, got, want)
}

func port(a netip.Addr) string { return netip.AddrPortFrom(a, 8080).String() }

func TestPodsOfNodesOnOneLinkReachEachOther(t *testing.T) {
	c := &cluster{t, fake.NewClientset()}
	a := c.machine("a", []string{"10.0.0.1", "fd00::1"}, "10.244.1.0/24", "fd01:1::/64")
	b := c.machine("b", []string{"10.0.0.2", "fd00::2"}, "10.244.2.0/24", "fd01:2::/64")
	nettest.Join(a.net, "eth0", []string{"10.0.0.1/24", "fd00::1/64"}, b.net, "eth0", []string{"10.0.0.2/24", "fd00::2/64"})
	c.run(a)
	c.run(b)
	podA, at := a.pod("a1")
	_, at2 := a.pod("a2")
	podB, bt := b.pod("b1")
	for family := range at {
		reaches(t, podA, port(at2[family]), "a2 for "+at[family].String())
		reaches(t, podA, port(bt[family]), "b1 for "+at[family].String())
		reaches(t, podB, port(at[family]), "a1 for "+bt[family].String())
		reaches(t, a.net, port(bt[family]), "b1 for "+[]string{"10.0.0.1", "fd00::1"}[family])
	}
}

func TestPodsOfNodesBehindARouterReachEachOther(t *testing.T) {
	c := &cluster{t, fake.NewClientset()}
	a := c.machine("a", []string{"10.0.1.1"}, "10.244.1.0/24")
	b := c.machine("b", []string{"10.0.2.1"}, "10.244.2.0/24")
	router := nettest.New(t)
	nettest.Join(a.net, "eth0", []string{"10.0.1.1/24"}, router, "a", []string{"10.0.1.254/24"})
	nettest.Join(b.net, "eth0", []string{"10.0.2.1/24"}, router, "b", []string{"10.0.2.254/24"})
	a.net.Route("0.0.0.0/0", "10.0.1.254")
	b.net.Route("0.0.0.0/0", "10.0.2.254")
	c.run(a)
	c.run(b)
	podA, at := a.pod("a1")
	_, bt := b.pod("b1")
	reaches(t, podA, port(bt[0]), "b1 for "+at[0].String())
}

func TestPodsTalkToTheWorldAsTheirNode(t *testing.T) {
	c := &cluster{t, fake.NewClientset()}
	a := c.machine("a", []string{"10.0.0.1"}, "10.244.1.0/24")
	world := nettest.New(t)
	nettest.Join(a.net, "eth0", []string{"10.0.0.1/24"}, world, "eth0", []string{"10.0.0.9/24"})
	c.run(a)
	podA, _ := a.pod("a1", PortMapping{HostPort: 9090, ContainerPort: 8080, Protocol: "tcp"})
	world.Do(func() error {
		l, err := net.Listen("tcp", "10.0.0.9:7070")
		if err != nil {
			return err
		}
		t.Cleanup(func() { l.Close() })
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				host, _, _ := net.SplitHostPort(c.RemoteAddr().String())
				fmt.Fprint(c, host)
				c.Close()
			}
		}()
		return nil
	})
	reaches(t, podA, "10.0.0.9:7070", "10.0.0.1")
	reaches(t, world, "10.0.0.1:9090", "a1 for 10.0.0.9")
	reaches(t, a.net, "10.0.0.1:9090", "a1 for 10.0.0.1")
}

func TestWhatAPodHadIsFreeWhenItHasGone(t *testing.T) {
	c := &cluster{t, fake.NewClientset()}
	a := c.machine("a", []string{"10.0.0.1"}, "10.244.1.0/29") // six addresses: one is the gateway's
	other := nettest.New(t)
	nettest.Join(a.net, "eth0", []string{"10.0.0.1/24"}, other, "eth0", []string{"10.0.0.9/24"})
	c.run(a)
	conf := a.configuration()
	var names []string
	for i := range 5 {
		name := fmt.Sprint("p", i)
		a.pod(name)
		names = append(names, name)
	}
	if _, err := a.call("ADD", "one-more", nettest.New(t), conf); err == nil || !strings.Contains(err.Error(), `"code":11`) {
		t.Errorf("a sixth pod: %v", err)
	}
	for range 2 { // the second time nothing changes
		if _, err := a.call("DEL", names[0], nil, conf); err != nil {
			t.Fatal(err)
		}
	}
	_, got := a.pod("again")
	if got[0] != netip.MustParseAddr("10.244.1.2") {
		t.Errorf("the free address is 10.244.1.2, and %v was given", got)
	}
	conf.Valid = []attachment{{ContainerID: "again", Interface: "eth0"}}
	if _, err := a.call("GC", "", nil, conf); err != nil {
		t.Fatal(err)
	}
	left := 0
	if err := (addresses{a.directory + "/state/addresses"}).forEach(func(netip.Addr, string) error { left++; return nil }); err != nil || left != 1 {
		t.Errorf("after a collection %d addresses are taken, want 1 (%v)", left, err)
	}
}

func TestCheckFindsWhatIsBroken(t *testing.T) {
	c := &cluster{t, fake.NewClientset()}
	a := c.machine("a", []string{"10.0.0.1"}, "10.244.1.0/24")
	nettest.Join(a.net, "eth0", []string{"10.0.0.1/24"}, nettest.New(t), "eth0", nil)
	c.run(a)
	pod, _ := a.pod("p")
	conf := a.configuration()
	if _, err := a.call("CHECK", "p", pod, conf); err != nil {
		t.Error(err)
	}
	if _, err := a.call("CHECK", "p", nettest.New(t), conf); err == nil {
		t.Error("a pod without its link was found to be in order")
	}
	if _, err := a.call("STATUS", "", nil, conf); err != nil {
		t.Error(err)
	}
	if _, err := a.call("DANCE", "p", pod, conf); err == nil || !strings.Contains(err.Error(), `"code":4`) {
		t.Errorf("an unknown command: %v", err)
	}
}

func TestAnInterruptedAddLeaksNothing(t *testing.T) {
	c := &cluster{t, fake.NewClientset()}
	a := c.machine("a", []string{"10.0.0.1"}, "10.244.1.0/24")
	nettest.Join(a.net, "eth0", []string{"10.0.0.1/24"}, nettest.New(t), "eth0", nil)
	c.run(a)
	conf := a.configuration()
	taken := addresses{a.directory + "/state/addresses"}
	// A plugin was killed after it had recorded the address.
	if err := taken.locked(func() error {
		_, err := taken.allocate(conf.Ranges[0], "p eth0", "")
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if _, err := a.call("DEL", "p", nil, conf); err != nil {
		t.Fatal(err)
	}
	if all, err := taken.ownedBy("p eth0"); err != nil || len(all) != 0 {
		t.Errorf("%v are still taken (%v)", all, err)
	}
}

func TestAConfigurationOfSomebodyElseIsRespected(t *testing.T) {
	c := &cluster{t, fake.NewClientset()}
	a := c.machine("a", []string{"10.0.0.1"}, "10.244.1.0/24")
	nettest.Join(a.net, "eth0", []string{"10.0.0.1/24"}, nettest.New(t), "eth0", nil)
	agent, err := New(Options{Clients: loop.ClientsFor(c.kube), Node: "a", ConfigurationDirectory: a.directory, PluginDirectory: a.directory + "/bin", Directory: a.directory + "/state"})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(a.directory, "05-other.conf"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	foreign, err := agent.otherConfiguration()
	if err != nil || filepath.Base(foreign) != "05-other.conf" {
		t.Errorf("the other configuration was not found: %q, %v", foreign, err)
	}
}

func TestTheLoopbackPluginSetsUpLoopback(t *testing.T) {
	c := &cluster{t, fake.NewClientset()}
	m := c.machine("a", []string{"10.0.0.1"}, "10.244.1.0/24")
	nettest.Join(m.net, "eth0", []string{"10.0.0.1/24"}, nettest.New(t), "eth0", nil)
	c.run(m)
	if to, err := os.Readlink(filepath.Join(m.directory, "bin", LoopbackName)); err != nil || to != os.Args[0] {
		t.Fatalf("the plugin loopback is a link to %q, %v", to, err)
	}
	pod := nettest.New(m)
	pod.Do(func() error {
		lo, err := netlink.LinkByName("lo")
		if err != nil {
			return err
		}
		return netlink.LinkSetDown(lo)
	})
	asked := Configuration{CNIVersion: "0.3.1", Name: "cni-loopback", Type: LoopbackName} // like containerd's call
	if _, err := m.call("CHECK", "x", pod, asked); err == nil {
		t.Fatal("CHECK finds nothing wrong with a device that is down")
	}
	r, err := m.call("ADD", "x", pod, asked)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.IPs) != 1 || r.IPs[0].Address.String() != "127.0.0.1/8" || r.IPs[0].Version != "4" || r.Interfaces[0].Name != "lo" {
		t.Fatalf("ADD answers %+v", r)
	}
	if _, err := m.call("CHECK", "x", pod, asked); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := m.call("DEL", "x", nil, asked); err != nil {
			t.Fatal(err)
		}
	}
	asked.CNIVersion = "9.0.0"
	if _, err := m.call("ADD", "x", pod, asked); err == nil {
		t.Fatal("a version that nobody knows is accepted")
	}
}

func TestALoopbackPluginOfSomebodyElseStays(t *testing.T) {
	c := &cluster{t, fake.NewClientset()}
	m := c.machine("a", []string{"10.0.0.1"}, "10.244.1.0/24")
	nettest.Join(m.net, "eth0", []string{"10.0.0.1/24"}, nettest.New(t), "eth0", nil)
	lo := filepath.Join(m.directory, "bin", LoopbackName)
	if err := errors.Join(os.MkdirAll(filepath.Dir(lo), 0o755), os.WriteFile(lo, []byte("theirs"), 0o755)); err != nil {
		t.Fatal(err)
	}
	c.run(m)
	if text, err := os.ReadFile(lo); err != nil || string(text) != "theirs" {
		t.Fatalf("it is %q now, %v", text, err)
	}
}
