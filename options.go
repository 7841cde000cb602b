package millrace

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"time"

	"github.com/millrace/millrace/internal/assembly/address"
	"github.com/millrace/millrace/internal/controllers/loadbalancer"
)

// Options configure a Cluster. The zero value is a cluster in memory, without nodes, with a free port of the loopback
// interface.
//
// Two that are often set: a directory that keeps the cluster, and hollow nodes, on which pods become ready:
//
//	millrace.Options{Data: "/var/lib/example", Nodes: 3}
//
// And what a fast test of one controller needs, inside a bubble of testing/synctest as well:
//
//	millrace.Options{Listen: "none", Controllers: []string{}, NoScheduler: true}
type Options struct {
	// Data is the directory for the objects, which are kept in a log, and the keys. If it is empty or "memory", nothing is
	// stored. The objects of an embedded etcd, which earlier versions had there, are taken over at the first start.
	Data string
	// Keys is the directory of keys and certificates, for several servers of one cluster, or to keep them in memory
	// with Data: "pki" in Data by default.
	Keys string
	// Etcd configures an external etcd cluster, which keeps the objects instead of the log in Data.
	Etcd EtcdOptions
	// Listen is the address of the API: "127.0.0.1:0" by default. Port 0 means a free port. With "none" there is no
	// port, and the API can only be called from this process. A cluster in memory without a port and without a
	// container runtime uses nothing outside the process. It can run inside a testing/synctest bubble, in virtual time.
	Listen string
	// Advertise is the address at which pods and other servers reach this one, as in the endpoints of the Service
	// "kubernetes". By default it is the listen address or, if that is a loopback or unspecified address, the address
	// of the machine's default route. A server without a port has no endpoints unless an address is given.
	Advertise string
	// Hosts are additional names and addresses in the serving certificate, for clients that reach the server by them.
	// By default it has those of the Service "kubernetes", of the port, and of this machine.
	Hosts []string
	// TokenFile has static tokens, in the format of kube-apiserver's --token-auth-file. By default there are none.
	TokenFile string
	// Authorization has the authorization modes in the order in which they are asked, as in kube-apiserver's
	// --authorization-mode: Node and RBAC by default. A cluster with nodes of its own always has Node. Members of
	// system:masters may do everything in any mode.
	Authorization []string
	// AuthorizationConfig is an AuthorizationConfiguration of apiserver.config.k8s.io, which says instead who is asked.
	// It is followed.
	AuthorizationConfig string
	// AuthorizationPolicyFile holds the policies of the mode ABAC, which needs it.
	AuthorizationPolicyFile string
	// AuthorizationWebhook is asked in the mode Webhook, which needs it.
	AuthorizationWebhook AuthorizationWebhookOptions
	// Authentication configures who is authenticated, besides certificates and tokens of the cluster itself.
	Authentication AuthenticationOptions
	// Controllers selects the loops, as kube-controller-manager's --controllers does: "*" for all that are on by
	// default, "foo" for one, "-foo" for all but one. Nil means "*" and the loops for bootstrap tokens; an empty list
	// runs none.
	Controllers []string
	// ControllersElsewhere says that the controllers run in another process, so that service accounts are expected to
	// be made. It matters if Controllers is an empty list.
	ControllersElsewhere bool
	// NoScheduler runs no scheduler, because pods stay unbound or somebody else binds them.
	NoScheduler bool
	// Nodes is the number of hollow nodes: nodes with fake containers. None by default.
	Nodes int
	// Runtime is the socket of a container runtime (CRI), such as unix:///run/containerd/containerd.sock. If it is set,
	// this machine becomes a node.
	Runtime string
	// KubeletRoot is the directory for the volumes and plugins of this machine's node: "kubelet" in Data by default.
	// Drivers of storage and devices expect /var/lib/kubelet.
	KubeletRoot string
	// Eviction says below which thresholds of this machine pods are evicted, as a kubelet's evictionHard does:
	//
	//	map[string]string{"memory.available": "100Mi", "nodefs.available": "10%"}
	//
	// Nil means Kubernetes' defaults.
	Eviction map[string]string
	// PodRange is the address range of pods in real containers, such as 10.244.0.0/16; two families are separated by a
	// comma. With it and a Runtime, the machine becomes part of the cluster's network: pods, services and names work.
	// If it is empty, the machine's network is not changed.
	PodRange string
	// CNI has the directories in which the container runtime looks for CNI configurations and plugins: /etc/cni/net.d
	// and /opt/cni/bin by default.
	CNI CNIOptions
	// ServiceRange is the address range of services: 10.96.0.0/16 by default. Two families are separated by a comma.
	ServiceRange string
	// RuntimeConfig turns APIs off and on, as kube-apiserver's --runtime-config does: "apps/v1", "apps/v1/deployments",
	// "v1", "api/all", "api/ga", "api/beta" and "api/alpha" with "true" or "false". By default all APIs are on but the
	// beta versions of some. Objects of an API that is off are kept.
	RuntimeConfig map[string]string
	// NodePorts is the range of node ports of services: 30000 to 32767 by default.
	NodePorts PortRange
	// EventTTL is how long events are kept: an hour by default, for ever if negative.
	EventTTL time.Duration
	// LoadBalancer selects who assigns addresses to services of type LoadBalancer. "node" assigns the nodes' addresses,
	// on which their ports answer if the node uses our network. Empty, or "none", leaves this to another controller.
	LoadBalancer string
	// AllowPrivileged allows privileged containers, which own the machine. By default they are refused.
	AllowPrivileged bool
	// Uncached has the resources ("configmaps", "deployments.apps") that are served without a watch cache, which saves
	// their memory and costs their readers; "*" means all. By default all are cached.
	Uncached []string
	// Window limits, for a resource, how much history the watch cache keeps, and so how far a watch may fall behind.
	// Nil, and zeros, mean the defaults.
	Window func(groupResource string) (events, bytes int)
	// CompactEvery is how long the store has past states for lists and watches: five minutes by default, for ever if
	// negative. With a History they are read from there after that.
	CompactEvery time.Duration
	// History keeps every change in Data when it is over: by default none. Every moment that it reaches back to is at
	// /at/WHEN/… of the API, and lists and watches begin there.
	History HistoryOptions
	// Audit configures audit logging. By default nothing is logged.
	Audit AuditOptions
	// Encryption configures encryption at rest. By default nothing is encrypted.
	Encryption EncryptionOptions
	// Admission selects and configures the admission plugins.
	Admission AdmissionOptions
	// Page serves a page for browsers at /page/ of the port. If that is a port of loopback, the page is also served
	// without TLS on a port of its own, since browsers do not know the cluster's authority. PageLink lets somebody in.
	Page bool
	// Planes lets this cluster run others, which objects of the kind ControlPlane (planes.millrace.dev) declare. They are
	// at /clusters/NAME of its port.
	Planes bool
	// Serving has limits and certificates of the API server.
	Serving ServingOptions
	// Logger receives the log; nil discards it.
	Logger *slog.Logger

	plane planeOptions
}

// EtcdOptions configure the connection to an etcd cluster.
type EtcdOptions struct {
	// Servers are its URLs, such as https://10.0.0.1:2379. Without any, no etcd cluster is used.
	Servers []string
	// CertFile and KeyFile have the client certificate, and CAFile the CA certificates of the servers. A cluster
	// without TLS needs none.
	CertFile, KeyFile, CAFile string
	// StartTimeout is how long Start waits for an etcd that does not answer: 20 seconds by default.
	StartTimeout time.Duration
}

// HistoryOptions bound the past that is kept. The zero value keeps none.
type HistoryOptions struct {
	// Age is how long a change is kept, at least, as long as there is space for it.
	Age time.Duration
	// Bytes is how much space the past may have on the disk.
	Bytes int64
}

// EncryptionOptions configure encryption at rest. Without a file nothing is encrypted.
type EncryptionOptions struct {
	// File is an EncryptionConfiguration of apiserver.config.k8s.io/v1.
	File string
	// Reload reads the file again when it changes, so that keys can be rotated while the cluster runs.
	Reload bool
}

// CNIOptions are the CNI directories of the container runtime.
type CNIOptions struct {
	// ConfigurationDirectory is /etc/cni/net.d by default, and PluginDirectory /opt/cni/bin.
	ConfigurationDirectory, PluginDirectory string
}

// PortRange are the ports from First to Last. The zero value means the default.
type PortRange struct{ First, Last int32 }

// AdmissionOptions are kube-apiserver's flags for admission plugins. The zero value means the default plugins.
type AdmissionOptions struct {
	// Enable and Disable change the set of default plugins, by Kubernetes' names of them.
	Enable, Disable []string
	// NotReadySeconds and UnreachableSeconds are for how long a pod stays on a node that is not ready or cannot be
	// reached, unless the pod says something else. Nil means five minutes.
	NotReadySeconds, UnreachableSeconds *int64
	// ConfigFile is an AdmissionConfiguration. By default plugins have their default configurations.
	ConfigFile string
}

// defaultAuthorization has the authorization modes if none are set.
var defaultAuthorization = []string{"Node", "RBAC"}

// balancedByNodes is the value of LoadBalancer for the nodes' addresses.
const balancedByNodes = "node"

func (o *Options) setDefaults() {
	if o.Data == "memory" {
		o.Data = ""
	}
	if o.Listen == "" {
		o.Listen = "127.0.0.1:0"
	}
	if o.Etcd.StartTimeout == 0 {
		o.Etcd.StartTimeout = 20 * time.Second
	}
	if len(o.Serving.Tokens.Issuers) == 0 {
		o.Serving.Tokens.Issuers = []string{"https://kubernetes.default.svc.cluster.local"}
	}
	if len(o.Serving.Tokens.Audiences) == 0 {
		o.Serving.Tokens.Audiences = o.Serving.Tokens.Issuers
	}
	if o.ServiceRange == "" {
		o.ServiceRange = "10.96.0.0/16"
	}
	if o.Controllers == nil {
		o.Controllers = []string{"*", "bootstrap-signer-controller", "token-cleaner-controller"}
	}
	if o.Authorization == nil {
		o.Authorization = defaultAuthorization
	}
	if o.ownNodes() && !slices.Contains(o.Authorization, "Node") {
		o.Authorization = append([]string{"Node"}, o.Authorization...)
	}
	if o.LoadBalancer == balancedByNodes && len(o.Controllers) > 0 {
		o.Controllers = append(slices.Clip(o.Controllers), loadbalancer.Name)
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
}

// ownNodes reports whether the cluster has nodes in this process.
func (o *Options) ownNodes() bool { return o.Nodes > 0 || o.Runtime != "" }

// check finds mistakes before anything is opened.
func (o *Options) check() error {
	if b := o.LoadBalancer; b != "" && b != "none" && b != balancedByNodes {
		return fmt.Errorf("%q as the load balancer is neither node nor none", b)
	}
	if o.Planes && len(o.Etcd.Servers) > 0 {
		return errors.New("a cluster whose objects are in an etcd cluster cannot run others yet: leave out Options.Planes")
	}
	return o.checkBubble()
}

// insideBubble reports whether the caller runs in a testing/synctest bubble. The first line of a goroutine's stack
// shows it.
func insideBubble() bool {
	head := make([]byte, 128)
	line, _, _ := bytes.Cut(head[:runtime.Stack(head, false)], []byte("\n"))
	return bytes.Contains(line, []byte("synctest bubble"))
}

// checkBubble returns an error, in a testing/synctest bubble, for options that would wait for something outside:
// virtual time would never advance.
func (o *Options) checkBubble() error {
	for _, part := range []struct {
		set bool
		why string
	}{
		{o.Listen != address.None, `a port of this machine; set Options.Listen to "none", and use Config() or InProcess()`},
		{len(o.Etcd.Servers) > 0, "an etcd cluster; leave out Options.Etcd, and the objects are kept in memory"},
		{o.Data != "", "a data directory, which is written to a disk; leave out Options.Data, and the objects are kept in memory"},
		{o.Runtime != "", "a container runtime; leave out Options.Runtime, and use hollow nodes (Options.Nodes)"},
	} {
		if part.set && insideBubble() {
			return fmt.Errorf("inside a bubble of testing/synctest, where time is virtual, there cannot be %s", part.why)
		}
	}
	return nil
}
