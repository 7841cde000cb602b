//go:build linux

package pods

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/millrace/millrace/informer"
	"github.com/millrace/millrace/loop"
)

// Options configure an Agent. Clients and Node must be set.
type Options struct {
	Clients *loop.Clients
	// Node is the name of the node that the agent works for.
	Node string
	// ConfigurationFolder is where the runtime looks for CNI configurations. Default /etc/cni/net.d.
	ConfigurationFolder string
	// PluginFolder is where it looks for plugins. Default /opt/cni/bin.
	PluginFolder string
	// Folder keeps which addresses are given out. Default /var/lib/millrace/network.
	Folder string
	// Program is the file of the plugin. Default: this program.
	Program string
	// MTU is the size of packets on the pods' links. Default: that of the node's link, less what VXLAN needs.
	MTU int
	// Every is how often all is compared and put right. Default 30 s.
	Every  time.Duration
	Logger *slog.Logger // nil: discard
}

// Agent keeps a node's part of the pods' network.
type Agent struct {
	options  Options
	log      *slog.Logger
	nodes    *informer.Shared[*corev1.Node]
	lastSaid string // what the log was told last, so that it is told once
}

// New makes an agent.
func New(o Options) (*Agent, error) {
	if o.Clients == nil || o.Node == "" {
		return nil, errors.New("the pods' network needs clients and the name of its node")
	}
	if o.Program == "" {
		program, err := os.Executable()
		if err != nil {
			return nil, fmt.Errorf("find this program: %w", err)
		}
		o.Program = program
	}
	o.ConfigurationFolder = cmp.Or(o.ConfigurationFolder, "/etc/cni/net.d")
	o.PluginFolder = cmp.Or(o.PluginFolder, "/opt/cni/bin")
	o.Folder = cmp.Or(o.Folder, "/var/lib/millrace/network")
	o.Every = cmp.Or(o.Every, 30*time.Second)
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return &Agent{options: o, log: o.Logger, nodes: loop.Informer(o.Clients, informer.For(o.Clients.Kube.CoreV1().Nodes()))}, nil
}

// Run keeps the network, in the network namespace of the calling thread, until the context ends, and leaves it. The clients'
// informers must run beside it.
func (a *Agent) Run(ctx context.Context) error {
	news := make(chan struct{}, 1)
	following := a.nodes.Handle(informer.Handler[*corev1.Node]{Name: "pods' network",
		Added:   func(*corev1.Node, bool) { nudge(news) },
		Updated: func(before, after *corev1.Node) { nudgeIf(news, peerOf(before) != peerOf(after)) },
		Deleted: func(*corev1.Node, bool) { nudge(news) },
	})
	defer func() {
		following.Close()
		<-following.Done()
	}()
	if err := a.nodes.Synced(ctx); err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	every := time.NewTicker(a.options.Every)
	defer every.Stop()
	for {
		if err := a.reconcile(); err != nil {
			a.say(slog.LevelError, "the pods' network could not be put in order", err.Error())
		}
		select {
		case <-ctx.Done():
			return nil
		case <-news:
		case <-every.C:
		}
	}
}

func nudge(news chan struct{}) { nudgeIf(news, true) }

func nudgeIf(news chan struct{}, changed bool) {
	if !changed {
		return
	}
	select {
	case news <- struct{}{}:
	default:
	}
}

// say logs something, unless it was the last that was said.
func (a *Agent) say(level slog.Level, what, why string) {
	if a.lastSaid == what+why {
		return
	}
	a.lastSaid = what + why
	a.log.Log(context.Background(), level, what, "node", a.options.Node, "why", why)
}

// peer is what the network needs of a node. It can be compared.
type peer struct {
	name    string
	address [2]netip.Addr   // by family; invalid: none
	ranges  [2]netip.Prefix // of its pods
}

// The families are places in arrays.
const (
	four = iota
	six
)

func familyIndex(a netip.Addr) int {
	if a.Is4() {
		return four
	}
	return six
}

func peerOf(n *corev1.Node) peer {
	p := peer{name: n.Name}
	for _, a := range n.Status.Addresses {
		ip, err := netip.ParseAddr(a.Address)
		if err == nil && a.Type == corev1.NodeInternalIP && !p.address[familyIndex(ip)].IsValid() {
			p.address[familyIndex(ip)] = ip
		}
	}
	for _, text := range n.Spec.PodCIDRs {
		if r, err := netip.ParsePrefix(text); err == nil {
			p.ranges[familyIndex(r.Addr())] = r.Masked()
		}
	}
	return p
}

// reconcile puts everything in order.
func (a *Agent) reconcile() error {
	n, ok := a.nodes.Get("", a.options.Node)
	if !ok {
		return nil // it is about to be registered
	}
	self := peerOf(n)
	if !self.ranges[four].IsValid() && !self.ranges[six].IsValid() {
		a.say(slog.LevelWarn, "pods get no addresses here", "the node has no spec.podCIDRs yet")
		return nil
	}
	foreign, err := a.foreign()
	if err != nil {
		return err
	}
	if foreign != "" {
		a.say(slog.LevelInfo, "the pods' network is configured by somebody else", foreign)
		return nil
	}
	var peers []peer
	for n := range a.nodes.List() {
		if n.Name != a.options.Node {
			peers = append(peers, peerOf(n))
		}
	}
	r, err := newRouter(self)
	if err != nil {
		return err
	}
	mtu := cmp.Or(a.options.MTU, r.mtu)
	return errors.Join(forwarding(), r.follow(peers), hide(self, peers), a.install(), a.configure(self, mtu))
}
