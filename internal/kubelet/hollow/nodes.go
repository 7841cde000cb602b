package hollow

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/client-go/util/watchlist"

	"github.com/millrace/millrace/informer"
	"github.com/millrace/millrace/internal/kubelet/node"
	"github.com/millrace/millrace/internal/kubelet/server"
	"github.com/millrace/millrace/internal/kubelet/source"
	"github.com/millrace/millrace/internal/kubelet/worker"
	"github.com/millrace/millrace/loop"
)

// Options configure hollow nodes. Clients is required.
type Options struct {
	Clients *loop.Clients
	// Nodes is their number: one by default.
	Nodes int
	// NamePrefix is the beginning of their names, followed by a number: "hollow-" by default.
	NamePrefix string
	// Capacity is the capacity of each node: 32 CPUs, 256 Gi of memory and 110 pods by default.
	Capacity corev1.ResourceList
	Labels   map[string]string
	Taints   []corev1.Taint
	// Zones, if positive, is the number of zones over which the nodes are spread.
	Zones int
	// Address is the address of all nodes, where their server listens: 127.0.0.1 by default.
	Address string
	// Server configures the one server of all nodes: on a free port by default.
	Server server.Access
	// PodRange is divided into a /24 for each node: 10.64.0.0/10 by default.
	PodRange netip.Prefix
	// Pods is the informer of the cluster's pods. Nil makes an informer that only watches pods with a node. A process
	// that watches all pods anyway passes its own informer.
	Pods *informer.Shared[*corev1.Pod]
	// Workers is how many pods are synced, and how many statuses are written, at the same time: 64 by default.
	Workers int
	// LeaseEvery is the time between two renewals of a lease: 10 s by default.
	LeaseEvery time.Duration
	// EventRate is how many normal events are recorded per second for all nodes together. Warnings are not limited. 0
	// means 20; a negative rate records none.
	EventRate float64
	// As returns the context for a node's requests, so that a transport can see the node. Nil uses the given context.
	As     func(ctx context.Context, node string) context.Context
	Logger *slog.Logger
}

// Nodes are hollow nodes. They are a loop.Runner.
type Nodes struct {
	options    Options
	pods       *informer.Shared[*corev1.Pod]
	nodes      *informer.Shared[*corev1.Node]
	rooms      *rooms
	runtime    *Runtime
	crew       *worker.Crew
	reporter   *worker.Reporter
	mirrors    *loop.Loop // removes mirror pods
	heartbeats *node.Heartbeats
	server     *server.Server
	first      uint32
	began      time.Time
	meters     meters
}

// New returns hollow nodes. Run starts them.
func New(o Options) (*Nodes, error) {
	o.setDefaults()
	if !o.PodRange.Addr().Is4() || o.PodRange.Bits() > 24 || o.Nodes > 1<<(24-o.PodRange.Bits()) {
		return nil, fmt.Errorf("%d nodes do not fit into %s with a /24 each", o.Nodes, o.PodRange)
	}
	o.Clients = o.Clients.As("kubelet")
	n := &Nodes{began: time.Now(), options: o, pods: o.Pods, rooms: newRooms(o.Capacity), nodes: loop.Informer(o.Clients, informer.For(o.Clients.Kube.CoreV1().Nodes()))}
	if n.pods == nil {
		n.pods = informer.Share(o.Clients.Informers, informer.For(o.Clients.Kube.CoreV1().Pods("")), informer.Options[*corev1.Pod]{
			FieldSelector: "spec.nodeName!=", DropManagedFields: true, Logger: o.Logger,
			DisableStreaming: watchlist.DoesClientNotSupportWatchListSemantics(o.Clients.Kube),
		})
	}
	base := o.PodRange.Masked().Addr().As4()
	n.first = uint32(base[0])<<24 | uint32(base[1])<<16 | uint32(base[2])<<8
	n.runtime = NewRuntime(n.podRange)
	n.reporter = worker.NewReporter(worker.ReporterOptions{Kube: o.Clients.Kube, Cached: n.pods.Lookup, Workers: o.Workers, Clients: o.Clients, As: o.As})
	n.mirrors = &loop.Loop{Name: "mirrors", Clients: o.Clients, Workers: 2, Sync: n.removeMirror}
	n.crew = worker.New(worker.Options{
		Runtime: n.runtime, Images: n.runtime, Wanted: n.wanted, Report: n.report, Gone: n.gone,
		Addresses: n.addresses, Admit: n.admit, Resize: n.rooms.resize, Workers: o.Workers, Clients: o.Clients, Logger: o.Logger, Record: n.recorder(),
	})
	var err error
	reviewer := &server.Reviewer{Kube: o.Clients.Kube, Node: n.asked, As: o.As}
	if n.server, err = o.Server.Open(served{n}, reviewer, []string{o.Address, "localhost"}, o.Logger); err != nil {
		return nil, err
	}
	n.heartbeats = node.NewHeartbeats(node.Options{
		Kube: o.Clients.Kube, Count: o.Nodes, Facts: n.facts, LeaseEvery: o.LeaseEvery, As: o.As, Logger: o.Logger,
	})
	return n, nil
}

func (o *Options) setDefaults() {
	o.Nodes = max(o.Nodes, 1)
	o.NamePrefix = cmp.Or(o.NamePrefix, "hollow-")
	o.Server.Listen = cmp.Or(o.Server.Listen, "127.0.0.1:0")
	o.Address = cmp.Or(o.Address, "127.0.0.1")
	if !o.PodRange.IsValid() {
		o.PodRange = netip.MustParsePrefix("10.64.0.0/10")
	}
	o.EventRate = cmp.Or(o.EventRate, 20)
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	o.Capacity = withDefaults(o.Capacity)
}

func withDefaults(capacity corev1.ResourceList) corev1.ResourceList {
	all := corev1.ResourceList{
		corev1.ResourceCPU:              resource.MustParse("32"),
		corev1.ResourceMemory:           resource.MustParse("256Gi"),
		corev1.ResourceEphemeralStorage: resource.MustParse("1Ti"),
		corev1.ResourcePods:             resource.MustParse("110"),
	}
	for name, q := range capacity {
		all[name] = q
	}
	return all
}

// Run keeps the nodes alive and their pods running until ctx ends. The caller must run the informers of Clients too.
func (n *Nodes) Run(ctx context.Context) error {
	handling := n.pods.Handle(informer.Handler[*corev1.Pod]{Name: "hollow", Because: n.changed})
	defer func() {
		handling.Close()
		<-handling.Done()
	}()
	runners := []loop.Runner{n.heartbeats, n.reporter, n.crew, n.mirrors}
	if n.server != nil {
		runners = append(runners, n.server)
	}
	return loop.Join(runners...).Run(ctx)
}

// wanted returns a pod of one of these nodes.
func (n *Nodes) wanted(key worker.Key) (*corev1.Pod, bool) {
	pod, ok := n.pods.Lookup(key)
	if !ok || !n.has(pod.Spec.NodeName) || source.Mirror(pod) {
		return nil, false
	}
	return pod, true
}

// number returns the number of the node with a name, or -1.
func (n *Nodes) number(name string) int {
	digits, ok := strings.CutPrefix(name, n.options.NamePrefix)
	if !ok || digits == "" || len(digits) > 1 && digits[0] == '0' {
		return -1
	}
	i, err := strconv.ParseUint(digits, 10, 31)
	if err != nil || int(i) >= n.options.Nodes {
		return -1
	}
	return int(i)
}

func (n *Nodes) has(name string) bool { return n.number(name) >= 0 }

func (n *Nodes) addresses(string) []string { return []string{n.options.Address} }

// podRange returns the address range of a node's pods.
func (n *Nodes) podRange(name string) string {
	i := n.number(name)
	if i < 0 {
		return ""
	}
	base := n.first + uint32(i)<<8
	return netip.AddrFrom4([4]byte{byte(base >> 24), byte(base >> 16), byte(base >> 8), 0}).String() + "/24"
}

// facts returns the facts of node i.
func (n *Nodes) facts(i int) node.Facts {
	name := n.options.NamePrefix + strconv.Itoa(i)
	f := node.Facts{
		Name: name, Addresses: n.addresses(name), Labels: n.options.Labels, Taints: n.options.Taints,
		Annotations: map[string]string{node.LocalVolumes: "/var/lib/millrace/local"}, // no such directory exists
		Capacity:    n.options.Capacity, PodCIDR: n.podRange(name), ProviderID: "hollow://" + name,
		Info: corev1.NodeSystemInfo{
			MachineID: fmt.Sprintf("%032x", i+1), SystemUUID: fmt.Sprintf("00000000-0000-0000-0000-%012x", i+1), BootID: fmt.Sprintf("00000000-0000-0000-0001-%012x", i+1),
			KernelVersion: "6.0.0-hollow", OSImage: "Hollow", ContainerRuntimeVersion: "hollow://1.0.0",
		},
	}
	if n.server != nil {
		f.Port = n.server.Port()
	}
	if n.options.Zones > 0 {
		labels := map[string]string{corev1.LabelTopologyZone: fmt.Sprintf("zone-%d", i%n.options.Zones)}
		for k, v := range f.Labels {
			labels[k] = v
		}
		f.Labels = labels
	}
	return f
}
