package kubelet

import (
	"context"
	"net/http"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"

	"github.com/millrace/millrace/informer"
	"github.com/millrace/millrace/internal/kubelet/credentialplugins"
	"github.com/millrace/millrace/internal/kubelet/cri"
	"github.com/millrace/millrace/internal/kubelet/csi"
	"github.com/millrace/millrace/internal/kubelet/devices"
	"github.com/millrace/millrace/internal/kubelet/furnish"
	"github.com/millrace/millrace/internal/kubelet/node"
	"github.com/millrace/millrace/internal/kubelet/plugins"
	"github.com/millrace/millrace/internal/kubelet/server"
	"github.com/millrace/millrace/internal/kubelet/source"
	"github.com/millrace/millrace/internal/kubelet/worker"
	"github.com/millrace/millrace/loop"
)

func (k *Kubelet) openRuntime() (err error) {
	o := &k.options
	if k.runtime = o.Runtime; k.runtime != nil {
		return nil
	}
	k.runtime, err = cri.Open(cri.Options{
		Socket: o.Socket, Addresses: o.Addresses, CgroupParent: o.CgroupParent, Profiles: filepath.Join(o.Root, "seccomp"),
		SeccompDefault: o.SeccompDefault, NoCPUQuota: o.NoCPUQuota, CPUPeriod: o.CPUPeriod, PIDs: o.PIDs, RequestTime: o.RequestTime,
		Logger: o.Logger,
	})
	return err
}

// assemble makes the parts of the node, each from those before it.
func (k *Kubelet) assemble() (err error) {
	o := &k.options
	if k.machine, err = readMachine(o.Root); err != nil {
		return err
	}
	k.watchNode()
	k.sources()
	if err := k.serveDevices(); err != nil {
		return err
	}
	if err := k.connectDrivers(); err != nil {
		return err
	}
	if err := k.furnishPods(); err != nil {
		return err
	}
	k.crew = worker.New(k.crewOptions())
	if err := k.listen(); err != nil { // nothing may fail after this, because the port is open
		return err
	}
	k.connect()
	k.runners = append(k.runners, k.crew, k.health, loop.Func(k.runHousekeeping), loop.Func(k.guard))
	return nil
}

// watchNode makes what watches the resources of the machine, and the runtime.
func (k *Kubelet) watchNode() {
	o := &k.options
	k.images = &imageCollector{runtime: k.runtime, used: used, rest: o.ImageRest, low: o.ImageLowUse, log: o.Logger}
	k.shortages.Limits = o.Eviction
	k.measure = measures{memory: memoryLevels, disk: k.diskLevels}
	k.health = newHealth(k.runtime, *o.StatusImages, o.Logger, k.announceReady)
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

// connectDrivers makes what talks to the drivers of volumes and devices. They need an API server.
func (k *Kubelet) connectDrivers() (err error) {
	o := &k.options
	if o.Clients == nil {
		return nil
	}
	k.drivers = csi.New(csi.Options{
		Kube: o.Clients.Kube, Node: o.Name, Root: o.Root, Changed: k.health.tell, Record: k.recorder(), Logger: o.Logger,
	})
	k.devices, err = devices.New(devices.Options{
		Kube: o.Clients.Kube, Node: o.Name, Root: o.Root, Affected: k.syncPods, Clients: o.Clients, Logger: o.Logger,
	})
	if err != nil {
		return err
	}
	handlers := map[string]plugins.Handler{registration.CSIPlugin: k.drivers, registration.DRAPlugin: k.devices}
	if k.plugins != nil {
		handlers[registration.DevicePlugin] = k.plugins
	}
	registry := plugins.New(plugins.Options{Root: o.Root, Logger: o.Logger, Handlers: handlers})
	k.runners = append(k.runners, registry, k.drivers, k.devices)
	return nil
}

// furnishPods makes what prepares volumes, environments and credentials. A part that the node does not have stays a nil
// interface.
func (k *Kubelet) furnishPods() (err error) {
	o := &k.options
	f := furnish.Options{
		Root: o.Root, Kube: k.kube(), Node: o.Name, Record: k.recorder(), Services: k.servicesOf, Addresses: o.Addresses, Allocatable: k.capacity(),
		ClusterDNS: o.ClusterDNS, ClusterDomain: o.ClusterDomain, Resolver: o.Resolver, Logger: o.Logger, ImageUser: k.runtime.User,
		Streaming: k.streaming(), SecretsOnDisk: k.options.SecretsOnDisk, Changed: func(key worker.Key) { k.crew.Changed(key) },
	}
	if k.drivers != nil {
		f.Drivers, f.Devices = k.drivers, k.devices
	}
	if k.plugins != nil {
		f.Plugins = k.plugins
	}
	if o.CredentialPlugins != "" {
		if f.Registries, err = k.credentialPlugins(); err != nil {
			return err
		}
	}
	k.furnish = furnish.New(f)
	return nil
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

func (k *Kubelet) crewOptions() worker.Options {
	o := &k.options
	return worker.Options{
		Runtime: k.runtime, Images: pacedImages(k.runtime, o.Pulls, o.PullRate, o.PullBurst), Wanted: k.config.Pod, Report: k.report,
		Gone: k.gone, Furnish: k.furnish, Addresses: func(string) []string { return o.Addresses }, Admit: k.admit, Resize: k.resize,
		Health: k.deviceHealth, Record: k.recorder(), Workers: workers, Logs: o.Logs, Backoff: o.Backoff, Clients: o.Clients,
		Logger: o.Logger, Terminated: k.countTerminated,
	}
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
