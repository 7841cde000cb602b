package kubelet

import (
	"context"
	"errors"
	"net/http"
	"path/filepath"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/watchlist"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"

	"github.com/millrace/millrace/informer"
	"github.com/millrace/millrace/internal/kubelet/credentialplugins"
	"github.com/millrace/millrace/internal/kubelet/cri"
	"github.com/millrace/millrace/internal/kubelet/csi"
	"github.com/millrace/millrace/internal/kubelet/deviceplugin"
	"github.com/millrace/millrace/internal/kubelet/devices"
	"github.com/millrace/millrace/internal/kubelet/furnish"
	"github.com/millrace/millrace/internal/kubelet/node"
	"github.com/millrace/millrace/internal/kubelet/plugins"
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

// New returns a Kubelet. It opens the server's port and starts nothing.
func New(o Options) (*Kubelet, error) {
	if err := o.setDefaults(); err != nil {
		return nil, err
	}
	k := &Kubelet{options: o, began: time.Now(), terminated: newTerminated(), unarmored: armorProblem()}
	var err error
	if k.machine, err = readMachine(o.Root); err != nil {
		return nil, err
	}
	if k.runtime = o.Runtime; k.runtime == nil {
		k.runtime, err = cri.Open(cri.Options{
			Socket: o.Socket, Addresses: o.Addresses, CgroupParent: o.CgroupParent, Profiles: filepath.Join(o.Root, "seccomp"),
			SeccompDefault: o.SeccompDefault, NoCPUQuota: o.NoCPUQuota, CPUPeriod: o.CPUPeriod, PIDs: o.PIDs, RequestTime: o.RequestTime, Logger: o.Logger,
		})
		if err != nil {
			return nil, err
		}
	}
	k.images = &imageCollector{runtime: k.runtime, used: used, rest: o.ImageRest, low: o.ImageLowUse, log: o.Logger}
	k.shortages.Limits = o.Eviction
	k.measure = measures{memory: memoryLevels, disk: k.diskLevels}
	k.health = newHealth(k.runtime, *o.StatusImages, o.Logger, k.announceReady)
	k.sources()
	volumes := furnish.Options{
		Root: o.Root, Kube: k.kube(), Services: k.servicesOf, Addresses: o.Addresses, Allocatable: k.capacity(),
		ClusterDNS: o.ClusterDNS, ClusterDomain: o.ClusterDomain, Resolver: o.Resolver, Logger: o.Logger, ImageUser: k.runtime.User,
		Streaming: k.streaming(), Changed: func(key worker.Key) { k.crew.Changed(key) },
	}
	if err := k.serveDevices(); err != nil {
		return nil, err
	}
	if o.Clients != nil {
		k.drivers = csi.New(csi.Options{Kube: o.Clients.Kube, Node: o.Name, Root: o.Root, Changed: k.health.tell, Record: k.recorder(), Logger: o.Logger})
		k.devices, err = devices.New(devices.Options{
			Kube: o.Clients.Kube, Node: o.Name, Root: o.Root, Affected: k.syncPods, Clients: o.Clients, Logger: o.Logger,
		})
		if err != nil {
			return nil, err
		}
		volumes.Drivers, volumes.Devices = k.drivers, k.devices
		handlers := map[string]plugins.Handler{registration.CSIPlugin: k.drivers, registration.DRAPlugin: k.devices}
		if k.plugins != nil {
			volumes.Plugins, handlers[registration.DevicePlugin] = k.plugins, k.plugins
		}
		registry := plugins.New(plugins.Options{Root: o.Root, Logger: o.Logger, Handlers: handlers})
		k.runners = append(k.runners, registry, k.drivers, k.devices)
	} else if k.plugins != nil {
		volumes.Plugins = k.plugins
	}
	if o.CredentialPlugins != "" {
		if volumes.Registries, err = k.credentialPlugins(); err != nil {
			return nil, err
		}
	}
	k.furnish = furnish.New(volumes)
	k.crew = worker.New(worker.Options{
		Runtime: k.runtime, Images: pacedImages(k.runtime, o.Pulls, o.PullRate, o.PullBurst), Wanted: k.config.Pod, Report: k.report, Gone: k.gone, Furnish: k.furnish,
		Addresses: func(string) []string { return o.Addresses }, Admit: k.admit, Resize: k.resize, Health: k.deviceHealth, Record: k.recorder(), Static: source.Static,
		Workers: workers, Logs: o.Logs, Backoff: o.Backoff, Clients: o.Clients, Logger: o.Logger, Terminated: k.countTerminated,
	})
	if err := k.listen(); err != nil {
		return nil, errors.Join(err, k.runtime.Close())
	}
	k.connect()
	k.runners = append(k.runners, k.crew, k.health, loop.Func(k.runHousekeeping), loop.Func(k.guard))
	return k, nil
}

// credentialPlugins loads the plugins that have credentials of registries.
func (k *Kubelet) credentialPlugins() (*credentialplugins.Plugins, error) {
	o := credentialplugins.Options{Config: k.options.CredentialPlugins, Directory: k.options.CredentialPrograms, Logger: k.options.Logger}
	if kube := k.kube(); kube != nil {
		o.Token = func(ctx context.Context, pod *corev1.Pod, audience string) (string, error) {
			return k.furnish.Token(ctx, pod, audience)
		}
		o.Account = func(ctx context.Context, pod *corev1.Pod) (*corev1.ServiceAccount, error) {
			return kube.CoreV1().ServiceAccounts(pod.Namespace).Get(ctx, pod.Spec.ServiceAccountName, metav1.GetOptions{})
		}
	}
	return credentialplugins.Load(o)
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

// sources connects the three sources of pods.
func (k *Kubelet) sources() {
	o := &k.options
	var names []source.Name
	if o.Manifests != "" {
		names = append(names, source.File)
	}
	if o.ManifestURL != "" {
		names = append(names, source.HTTP)
	}
	if o.Clients != nil {
		names = append(names, source.API)
	}
	k.config = source.NewConfig(k.changed, names...)
	if o.Manifests != "" {
		k.runners = append(k.runners, source.NewFiles(source.FileOptions{Path: o.Manifests, Node: o.Name, Every: o.SourceEvery, Logger: o.Logger},
			func(pods []*corev1.Pod) { k.config.Set(source.File, pods) }))
	}
	if o.ManifestURL != "" {
		k.runners = append(k.runners, source.NewURL(source.URLOptions{URL: o.ManifestURL, Header: o.ManifestHeader, Node: o.Name, Every: o.URLEvery, Logger: o.Logger},
			func(pods []*corev1.Pod) { k.config.Set(source.HTTP, pods) }))
	}
}

// connect sets up what needs an API server.
func (k *Kubelet) connect() {
	o := &k.options
	if o.Clients == nil {
		return
	}
	c := o.Clients
	streaming := k.streaming()
	k.api = source.NewServer(c.Kube, o.Name, streaming, o.Logger, k.fromServer)
	k.reporter = worker.NewReporter(worker.ReporterOptions{Kube: c.Kube, Cached: k.api.Pod, Workers: 8, Clients: c})
	k.mirrors = newMirrors(k)
	k.services = loop.Informer(c, informer.For(c.Kube.CoreV1().Services("")))
	k.self = informer.Share(c.Informers, informer.For(c.Kube.CoreV1().Nodes()), informer.Options[*corev1.Node]{
		FieldSelector: "metadata.name=" + o.Name, DropManagedFields: true, DisableStreaming: !streaming, Logger: o.Logger,
	})
	k.heartbeats = node.NewHeartbeats(node.Options{
		Kube: c.Kube, Count: 1, Facts: func(int) node.Facts { return k.facts() }, Changed: k.health.changed,
		LeaseEvery: o.LeaseEvery, LeaseFor: o.LeaseFor, StatusEvery: o.StatusEvery, NoRegister: o.NoRegister, Logger: o.Logger,
	})
	k.runners = append(k.runners, k.furnish, k.heartbeats, k.reporter, k.mirrors, loop.Func(k.followServer))
}

// followServer takes pods from the API server, but only once services are known: containers get them as environment variables.
func (k *Kubelet) followServer(ctx context.Context) error {
	if err := k.services.Synced(ctx); err != nil && ctx.Err() == nil {
		k.options.Logger.Warn("waiting for the list of services", "err", err)
	}
	return k.api.Run(ctx)
}

// listen opens the server's port. The port must be known when the node registers.
func (k *Kubelet) listen() (err error) {
	var reviewer *server.Reviewer
	if c := k.options.Clients; c != nil {
		reviewer = &server.Reviewer{Kube: c.Kube, Node: func(*http.Request) string { return k.options.Name }}
	}
	k.server, err = k.options.Server.Open(served{k}, reviewer, append([]string{k.options.Name}, k.options.Addresses...), k.options.Logger)
	if k.server != nil {
		k.runners = append(k.runners, k.server)
	}
	return err
}

// Run runs the node until ctx ends. Containers keep running after that. The caller must run the informers of Clients too.
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
		if source.Static(pod) { // its mirror pod may have been deleted
			k.mirrors.loop.Add(informer.KeyOf(pod))
		}
	}
	k.config.Set(source.API, pods)
}

// changed is called for each change of the wanted pods.
func (k *Kubelet) changed(u source.Update) {
	key := informer.KeyOf(u.Pod)
	k.options.Logger.Debug("pod changed", "operation", u.Operation, "source", u.Source, "key", key)
	k.crew.Changed(key)
	if k.mirrors != nil && u.Source != source.API {
		k.mirrors.loop.Add(key)
	}
}

// report writes a pod's status to the API: to the pod itself or to its mirror pod.
func (k *Kubelet) report(pod *corev1.Pod, status *corev1.PodStatus, finished bool) {
	switch {
	case k.reporter == nil:
	case source.Static(pod):
		k.mirrors.report(pod, status)
	default:
		k.reporter.Report(pod, status, finished)
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
