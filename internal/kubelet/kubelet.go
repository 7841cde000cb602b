package kubelet

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/watchlist"

	"github.com/millrace/millrace/cause"
	"github.com/millrace/millrace/informer"
	"github.com/millrace/millrace/internal/kubelet/csi"
	"github.com/millrace/millrace/internal/kubelet/deviceplugin"
	"github.com/millrace/millrace/internal/kubelet/devices"
	"github.com/millrace/millrace/internal/kubelet/furnish"
	"github.com/millrace/millrace/internal/kubelet/node"
	"github.com/millrace/millrace/internal/kubelet/pressure"
	"github.com/millrace/millrace/internal/kubelet/server"
	"github.com/millrace/millrace/internal/kubelet/source"
	"github.com/millrace/millrace/internal/kubelet/stats"
	"github.com/millrace/millrace/internal/kubelet/worker"
	"github.com/millrace/millrace/loop"
)

// Kubelet runs one node. It is a loop.Runner.
type Kubelet struct {
	options    Options
	runtime    Runtime
	machine    machine
	config     *source.Config
	crew       *worker.Crew
	furnish    *furnish.Furnisher
	drivers    *csi.Drivers          // nil without an API server
	devices    *devices.Devices      // the same
	plugins    *deviceplugin.Plugins // nil without a directory
	api        *source.Server
	reporter   *worker.Reporter
	mirrors    *mirrors
	heartbeats *node.Heartbeats
	server     *server.Server
	services   *informer.Shared[*corev1.Service]
	self       *informer.Shared[*corev1.Node]
	measure    measures
	noting     sync.Mutex // held while pressed changes and is reported
	unarmored  string     // why AppArmor profiles cannot be enforced, or ""
	shortages  pressure.Watch
	pressed    pressure.Hold
	images     *imageCollector
	rates      stats.Rates
	terminated *prometheus.CounterVec // the runs of containers that have ended
	began      time.Time
	health     *health
	runners    []loop.Runner
}

// New returns a Kubelet. It opens the runtime and the server's port, and starts nothing. If it fails, it leaves nothing
// open: it closes the runtime, as Run does at its end.
func New(o Options) (*Kubelet, error) {
	if err := o.setDefaults(); err != nil {
		return nil, err
	}
	k := &Kubelet{options: o, began: time.Now(), terminated: newTerminated(), unarmored: armorProblem()}
	if err := k.openRuntime(); err != nil {
		return nil, err
	}
	if err := k.assemble(); err != nil {
		return nil, errors.Join(err, k.runtime.Close())
	}
	return k, nil
}

// workers is how many pods are synced at the same time: at least as many as a node has.
const workers = 128

func (k *Kubelet) kube() kubernetes.Interface {
	if k.options.Clients == nil {
		return nil
	}
	return k.options.Clients.Kube
}

func (k *Kubelet) streaming() bool {
	return k.options.Clients != nil && !watchlist.DoesClientNotSupportWatchListSemantics(k.options.Clients.Kube)
}

// followServer takes pods from the API server, but only once services are known: containers get them as environment
// variables.
func (k *Kubelet) followServer(ctx context.Context) error {
	if err := k.services.Synced(ctx); err != nil && ctx.Err() == nil {
		k.options.Logger.Warn("waiting for the list of services", "err", err)
	}
	return k.api.Run(ctx)
}

// Run runs the node until ctx ends. Containers keep running after that. The caller must run the informers of Clients
// too.
func (k *Kubelet) Run(ctx context.Context) error {
	defer k.runtime.Close()
	k.announce(corev1.EventTypeNormal, "Starting", "Starting kubelet.")
	return loop.Join(k.runners...).Run(ctx)
}

// fromServer takes the pods that the API server has for this node.
func (k *Kubelet) fromServer(all []*corev1.Pod) {
	pods := make([]*corev1.Pod, 0, len(all))
	for _, pod := range all {
		if source.Mirror(pod) {
			k.mirrors.loop.Add(informer.KeyOf(pod))
			continue
		}
		pods = append(pods, pod)
	}
	for _, pod := range k.config.Pods() {
		if k.config.Static(pod) { // its mirror pod may have been deleted
			k.mirrors.loop.Add(informer.KeyOf(pod))
		}
	}
	k.config.Set(source.API, pods)
}

// changed is called for each change of the wanted pods.
func (k *Kubelet) changed(u source.Update) {
	key := informer.KeyOf(u.Pod)
	k.options.Logger.Debug("pod changed", "operation", u.Operation, "source", u.Source, "key", key)
	if u.Source == source.API {
		k.crew.Written(cause.Of("pods", u.Pod))
	} else {
		k.crew.Changed(key)
	}
	if k.mirrors != nil && u.Source != source.API {
		k.mirrors.loop.Add(key)
	}
}

// report writes a pod's status to the API: to the pod itself or to its mirror pod.
func (k *Kubelet) report(ctx context.Context, pod *corev1.Pod, status *corev1.PodStatus, finished bool) {
	if k.reporter == nil {
		return
	}
	switch from, ok := k.config.SourceOf(pod); {
	case !ok: // no source has this pod any more, so there is nothing to write to
	case from == source.API:
		k.reporter.Report(ctx, pod, status, finished)
	default:
		k.mirrors.report(pod, status)
	}
}

func (k *Kubelet) gone(key worker.Key) {
	if k.reporter != nil {
		k.reporter.Forget(key)
		k.mirrors.loop.Add(key)
	}
}

func (k *Kubelet) servicesOf(namespace string) []*corev1.Service {
	if k.services == nil {
		return nil
	}
	var all []*corev1.Service
	for s := range k.services.ListNamespace(namespace) {
		all = append(all, s)
	}
	return all
}

func (k *Kubelet) recorder() loop.Recorder {
	if c := k.options.Clients; c != nil && c.Events != nil {
		return c.Events.For(corev1.EventSource{Component: "kubelet", Host: k.options.Name})
	}
	return nil
}
