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
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/millrace/millrace/informer"
	"github.com/millrace/millrace/loop"
)

// Options configure an Agent. Clients and Node must be set.
type Options struct {
	Clients *loop.Clients
	// Node is the name of the agent's node.
	Node string
	// ConfigurationDirectory is the directory in which the runtime finds CNI configurations. Default /etc/cni/net.d.
	ConfigurationDirectory string
	// PluginDirectory is the directory in which it finds plugins. Default /opt/cni/bin.
	PluginDirectory string
	// Directory is the directory with a file for each assigned address. Default /var/lib/millrace/network.
	Directory string
	// Hold keeps packets from and to a new pod back until the policies of this node release its addresses, see [Given].
	Hold bool
	// Program is the plugin's executable. Default: this program.
	Program string
	// MTU is the MTU of the pods' links. Default: that of the node's link, less the overhead of VXLAN.
	MTU int
	// Interval is how often everything is compared and corrected. Default 30 s.
	Interval time.Duration
	Logger   *slog.Logger // nil: discard
}

// Agent maintains a node's part of the pods' network.
type Agent struct {
	options    Options
	log        *slog.Logger
	nodes      *informer.Shared[*corev1.Node]
	lastLogged string // the last log message, which is not repeated
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
	o.ConfigurationDirectory = cmp.Or(o.ConfigurationDirectory, "/etc/cni/net.d")
	o.PluginDirectory = cmp.Or(o.PluginDirectory, "/opt/cni/bin")
	o.Directory = orDefault(o.Directory)
	o.Interval = cmp.Or(o.Interval, 30*time.Second)
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return &Agent{options: o, log: o.Logger, nodes: loop.Informer(o.Clients, informer.For(o.Clients.Kube.CoreV1().Nodes()))}, nil
}

func orDefault(directory string) string { return cmp.Or(directory, "/var/lib/millrace/network") }

// Run maintains the network in the network namespace of the calling thread until the context ends. The network stays.
// The clients' informers must run at the same time.
func (a *Agent) Run(ctx context.Context) error {
	wake := make(chan struct{}, 1)
	following := a.nodes.Handle(informer.Handler[*corev1.Node]{Name: "pods' network",
		Added:   func(*corev1.Node, bool) { trigger(wake) },
		Updated: func(before, after *corev1.Node) { triggerIf(wake, peerOf(before) != peerOf(after)) },
		Deleted: func(*corev1.Node, bool) { trigger(wake) },
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
	every := time.NewTicker(a.options.Interval)
	defer every.Stop()
	for late := false; ; {
		switch err := a.reconcile(); {
		case errors.Is(err, errNoRanges):
			if late { // a node that has just registered gets them in a moment
				a.logOnce(slog.LevelWarn, "pods get no addresses here", err.Error())
			}
		case err != nil:
			a.logOnce(slog.LevelError, "the pods' network could not be put in order", err.Error())
		}
		select {
		case <-ctx.Done():
			return nil
		case <-wake:
			late = false
		case <-every.C:
			late = true
		}
	}
}

func trigger(wake chan struct{}) { triggerIf(wake, true) }

func triggerIf(wake chan struct{}, changed bool) {
	if !changed {
		return
	}
	select {
	case wake <- struct{}{}:
	default:
	}
}

// logOnce logs a message, unless it was the last one.
func (a *Agent) logOnce(level slog.Level, what, why string) {
	if a.lastLogged == what+why {
		return
	}
	a.lastLogged = what + why
	a.log.Log(context.Background(), level, what, "node", a.options.Node, "why", why)
}

// peer is the part of a Node that the network needs. Peers can be compared with ==.
type peer struct {
	name    string
	address [2]netip.Addr   // by family; invalid: none
	ranges  [2]netip.Prefix // of the node's pods
}

// The families are indexes of arrays.
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

var errNoRanges = errors.New("the node has no spec.podCIDRs yet")

// reconcile compares and corrects everything.
func (a *Agent) reconcile() error {
	n, ok := a.nodes.Get("", a.options.Node)
	if !ok {
		return nil // the node is not registered yet
	}
	self := peerOf(n)
	if !self.ranges[four].IsValid() && !self.ranges[six].IsValid() {
		return errNoRanges
	}
	foreign, err := a.otherConfiguration()
	if err != nil {
		return err
	}
	if foreign != "" {
		a.logOnce(slog.LevelInfo, "the pods' network is configured by somebody else", foreign)
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
	return errors.Join(forwarding(), r.update(peers), masquerade(self, peers), a.guard(), a.install(), a.configure(self, mtu))
}

// guard corrects what pods may send.
func (a *Agent) guard() error {
	all := addresses{filepath.Join(a.options.Directory, "addresses")}
	return all.locked(func() error { return all.guard(nil) })
}
