package devices

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/millrace/millrace/loop"
	"github.com/millrace/millrace/queue"
)

// wipeAfter is how long a driver may be away until its resource slices are deleted.
const wipeAfter = 30 * time.Second

// Options say which node this is and where things are. Kube, Node and Root are required.
type Options struct {
	Kube kubernetes.Interface
	Node string
	// Root is the kubelet's directory, where the file is that says what was prepared.
	Root string
	// Affected is called with pods when the health of their devices has changed. It must not block. Nil is not called.
	Affected func(pods []types.UID)
	// Clients give the loop its logger and metrics.
	Clients *loop.Clients
	Logger  *slog.Logger
}

// Devices are those of one node. They are the handler of plugins of the type DRAPlugin, and a loop.Runner.
type Devices struct {
	Options
	slices *loop.Loop

	mu      sync.Mutex           // guards drivers
	drivers map[string][]*driver // by name, in the order in which they registered

	health  healths
	streams sync.WaitGroup // of drivers that tell the health of their devices

	busy   locks      // by claim; taken before noted
	noted  sync.Mutex // guards claims, and the file that says the same
	claims map[types.UID]*claim
}

// New makes the devices of a node, and reads what was prepared.
func New(o Options) (*Devices, error) {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Affected == nil {
		o.Affected = func([]types.UID) {}
	}
	d := &Devices{Options: o, drivers: map[string][]*driver{}}
	var err error
	if d.claims, err = load(d.file()); err != nil {
		return nil, err
	}
	d.slices = &loop.Loop{
		Name: "resource-slices", Clients: o.Clients, Sync: d.wipe, Start: []loop.Key{{}},
		Queue: queue.Options[loop.Key]{MaxDelay: 5 * time.Minute},
	}
	return d, nil
}

// Run deletes the resource slices of drivers that have gone, until ctx ends.
func (d *Devices) Run(ctx context.Context) error { return d.slices.Run(ctx) }

// driverKey is a driver among the keys of the loop. No name stands for all drivers.
func driverKey(name string) loop.Key { return loop.Key{Name: name} }

// wipe deletes the node's resource slices of a driver that is away, or of all drivers.
func (d *Devices) wipe(ctx context.Context, key loop.Key) (loop.Result, error) {
	selector := fields.Set{resourcev1.ResourceSliceSelectorNodeName: d.Node}
	if key.Name != "" {
		if d.reachable(ctx, key.Name) {
			return loop.Result{}, nil
		}
		selector[resourcev1.ResourceSliceSelectorDriver] = key.Name
	}
	err := d.Kube.ResourceV1().ResourceSlices().DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{FieldSelector: selector.String()})
	if err != nil {
		return loop.Result{}, fmt.Errorf("delete resource slices (%s): %w", selector, err)
	}
	return loop.Result{}, nil
}

// locks are mutexes by name, each of which is there while somebody holds it or waits for it.
type locks struct {
	mu  sync.Mutex
	all map[types.UID]*lock // guarded by mu
}

type lock struct {
	sync.Mutex
	users int // guarded by locks.mu
}

func (l *locks) lock(name types.UID) (unlock func()) {
	l.mu.Lock()
	if l.all == nil {
		l.all = map[types.UID]*lock{}
	}
	one := l.all[name]
	if one == nil {
		one = &lock{}
		l.all[name] = one
	}
	one.users++
	l.mu.Unlock()
	one.Lock()
	return func() {
		one.Unlock()
		l.mu.Lock()
		defer l.mu.Unlock()
		if one.users--; one.users == 0 {
			delete(l.all, name)
		}
	}
}
