package millrace

import (
	"bytes"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"time"

	"github.com/millrace/millrace/internal/controllers/loadbalancer"
	"github.com/millrace/millrace/internal/kubelet/pressure"
	"github.com/millrace/millrace/internal/server/admission"
	"github.com/millrace/millrace/internal/server/allocation"
	"github.com/millrace/millrace/internal/server/apiserver"
	"github.com/millrace/millrace/internal/server/auth/webhook"
)

// Options configure a Cluster.
type Options struct {
	// Data is the directory for etcd's data and the keys. If it is empty or "memory", nothing is stored.
	Data string
	// Keys is the directory of keys and certificates: "pki" in the data directory by default.
	Keys string
	// Etcd configures an external etcd cluster instead of the embedded one.
	Etcd EtcdOptions
	// Listen is the address of the API: "127.0.0.1:0" by default. Port 0 means a free port. With "none" there is no port, and the
	// API can only be called from this process. A cluster in memory without a port and without a container runtime uses nothing
	// outside the process. It can run inside a testing/synctest bubble, in virtual time.
	Listen string
	// Advertise is the address at which pods and other servers reach this one, as in the endpoints of the Service "kubernetes".
	// By default it is the listen address or, if that is a loopback or unspecified address, the address of the machine's default
	// route. A server without a port has no endpoints unless an address is given.
	Advertise string
	// Hosts are additional names and addresses in the serving certificate.
	Hosts []string
	// TokenFile has static tokens, in the format of kube-apiserver's --token-auth-file.
	TokenFile string
	// Authorization has the authorization modes in the order in which they are asked, as in kube-apiserver's
	// --authorization-mode: Node and RBAC by default. A cluster with nodes of its own always has Node. Members of system:masters
	// may do everything in any mode.
	Authorization []string
	// AuthorizationConfig is an AuthorizationConfiguration of apiserver.config.k8s.io, which says instead who is asked. It is followed.
	AuthorizationConfig string
	// AuthorizationPolicyFile holds the policies of the mode ABAC.
	AuthorizationPolicyFile string
	// AuthorizationWebhook is asked in the mode Webhook.
	AuthorizationWebhook webhook.AuthorizerOptions
	// Authentication configures who is authenticated, besides certificates and tokens of the cluster itself.
	Authentication AuthenticationOptions
	// Controllers selects the loops, as kube-controller-manager's --controllers does: "*" for all that are on by default, "foo"
	// for one, "-foo" for all but one. Nil means "*" and the loops for bootstrap tokens; an empty list runs none.
	Controllers []string
	// ControllersElsewhere says that the controllers run in another process, so that service accounts are expected to be made.
	ControllersElsewhere bool
	// NoScheduler runs no scheduler.
	NoScheduler bool
	// Nodes is the number of hollow nodes: nodes with fake containers.
	Nodes int
	// Runtime is the socket of a container runtime (CRI). If it is set, this machine becomes a node.
	Runtime string
	// KubeletRoot is the directory for the volumes and plugins of this machine's node: "kubelet" in Data by default. Drivers of storage and devices
	// expect /var/lib/kubelet.
	KubeletRoot string
	// Eviction says how short of memory or disk this machine may become before pods are evicted: as in Kubernetes if nil.
	Eviction pressure.Thresholds
	// PodRange is the address range of pods in real containers; two families are separated by a comma. With it and a Runtime, the
	// machine becomes part of the cluster's network: pods, services and names work. If it is empty, the machine's network is not
	// changed.
	PodRange string
	// CNI has the directories in which the container runtime looks for CNI configurations and plugins: /etc/cni/net.d and
	// /opt/cni/bin by default.
	CNI CNIOptions
	// ServiceRange is the address range of services: 10.96.0.0/16 by default.
	ServiceRange string
	// RuntimeConfig turns APIs off and on, as kube-apiserver's --runtime-config does: "apps/v1", "apps/v1/deployments", "v1", "api/all", "api/ga",
	// "api/beta" and "api/alpha" with "true" or "false". By default all APIs are on. Objects of an API that is off are kept.
	RuntimeConfig map[string]string
	// NodePorts is the range of node ports of services: 30000-32767 by default.
	NodePorts allocation.PortRange
	// EventTTL is how long events are kept: an hour by default, for ever if negative.
	EventTTL time.Duration
	// LoadBalancer selects who assigns addresses to services of type LoadBalancer. "node" assigns the nodes' addresses, on which
	// their ports answer if the node uses our network. Empty, or "none", leaves this to another controller.
	LoadBalancer string
	// AllowPrivileged allows privileged containers.
	AllowPrivileged bool
	// Uncached has the resources ("configmaps", "deployments.apps") that are served without a watch cache; "*" means all.
	Uncached []string
	// Window limits, for a resource, how much history the watch cache keeps. Nil, and zeros, mean the defaults.
	Window func(groupResource string) (events, bytes int)
	// CompactEvery is how long the store keeps history: five minutes by default, for ever if negative.
	CompactEvery time.Duration
	// Audit configures audit logging. Encryption configures encryption at rest.
	Audit      AuditOptions
	Encryption EncryptionOptions
	// Admission selects and configures the admission plugins.
	Admission AdmissionOptions
	// Serving has limits and certificates of the API server.
	Serving ServingOptions
	// Logger receives the log; nil discards it.
	Logger *slog.Logger
}

// AdmissionOptions are kube-apiserver's flags for admission plugins. The zero value means the default plugins.
type AdmissionOptions struct {
	// Enable and Disable change the set of default plugins.
	Enable, Disable []string
	// NotReadySeconds and UnreachableSeconds are for how long a pod stays on a node that is not ready or cannot be reached, unless the pod says
	// something else. Nil means five minutes.
	NotReadySeconds, UnreachableSeconds *int64
	// ConfigFile is an AdmissionConfiguration.
	ConfigFile string
}

// configuration reads the file, if there is one.
func (o AdmissionOptions) configuration() (admission.Configuration, error) {
	if o.ConfigFile == "" {
		return nil, nil
	}
	return admission.ReadConfiguration(o.ConfigFile)
}

// CNIOptions are the CNI directories of the container runtime.
type CNIOptions struct {
	ConfigurationDirectory, PluginDirectory string
}

// balancedByNodes is the value of LoadBalancer for the nodes' addresses.
const balancedByNodes = "node"

// noPort is the address of a server that does not listen.
const noPort = "none"

// EtcdOptions configure the connection to an etcd cluster.
type EtcdOptions struct {
	Servers                   []string
	CertFile, KeyFile, CAFile string
	// StartTimeout is how long Start waits for an etcd that does not answer: 20 seconds by default.
	StartTimeout time.Duration
}

// TokenOptions configure service account tokens. Zero values mean the defaults.
type TokenOptions struct {
	// Issuers are the issuers of tokens: the first makes them, all are accepted. The default is https://kubernetes.default.svc.cluster.local.
	Issuers []string
	// Audiences are what tokens for this API server are meant for: the issuers by default.
	Audiences []string
	// SigningKeyFile is the key that signs tokens, RSA or ECDSA: sa.key in the directory of keys by default. KeyFiles have public keys that verify
	// tokens besides it.
	SigningKeyFile string
	KeyFiles       []string
	// KeysURI is where clients find the public keys: this server by default.
	KeysURI string
	// MaxLife bounds how long tokens are valid; zero does not.
	MaxLife time.Duration
	// NoExtension lets tokens of pods expire when they are to be renewed. By default they are then valid for another year, as in Kubernetes.
	NoExtension bool
}

// ServingOptions configure how the API is served. Zero values mean the defaults.
type ServingOptions struct {
	// CertFile and KeyFile have the serving certificate. By default the cluster's own CA signs one.
	CertFile, KeyFile string
	// TLS configures the versions and ciphers of TLS, and certificates for certain names.
	TLS TLSOptions
	// ClientCAFile has additional CA certificates for client certificates.
	ClientCAFile string
	// KubeletCAFile has the CA certificates that verify the kubelets' serving certificates. Without it they are not verified.
	KubeletCAFile string
	// Kubelets configures the connections to kubelets.
	Kubelets KubeletOptions
	// Proxy has the client certificate for the servers of aggregated API groups.
	Proxy ProxyOptions
	// Tokens configure service account tokens.
	Tokens TokenOptions
	// MaxInFlight and MaxMutatingInFlight limit the requests that are served at the same time: 400 and 200 by default. API
	// Priority and Fairness divides their sum. With NoFairness they are two limits for all clients together.
	MaxInFlight, MaxMutatingInFlight int
	NoFairness                       bool
	// RequestTimeout ends requests that are not long-running: after a minute by default. MinRequestTimeout is the minimum time
	// that a watch stays open: half an hour by default.
	RequestTimeout, MinRequestTimeout time.Duration
	// NoProfiling leaves out the profiles of this process below /debug/pprof.
	NoProfiling bool
	// ShutdownDelay is how long the server continues after Close was called, while /readyz says that it is not ready. So load balancers have time
	// to send requests elsewhere.
	ShutdownDelay time.Duration
	// ExternalHostname is the name of this server in documents for clients from outside. By default it is the address at which pods reach it.
	ExternalHostname string
	// Headers are HTTP headers that the server's port sends.
	Headers HeaderOptions
	// BookmarkPeriod is how often a watch with bookmarks gets one: every minute by default.
	BookmarkPeriod time.Duration
}

func (s ServingOptions) bounds(o *apiserver.Options) {
	o.MaxInFlight, o.MaxMutatingInFlight = s.MaxInFlight, s.MaxMutatingInFlight
	o.RequestTimeout, o.MinRequestTimeout = s.RequestTimeout, s.MinRequestTimeout
	o.BookmarkPeriod = s.BookmarkPeriod
}

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
	if ownNodes := o.Nodes > 0 || o.Runtime != ""; ownNodes && !slices.Contains(o.Authorization, "Node") {
		o.Authorization = append([]string{"Node"}, o.Authorization...)
	}
	if o.LoadBalancer == balancedByNodes && len(o.Controllers) > 0 {
		o.Controllers = append(slices.Clip(o.Controllers), loadbalancer.Name)
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
}

// insideBubble reports whether the caller runs in a testing/synctest bubble. The first line of a goroutine's stack shows it.
func insideBubble() bool {
	head := make([]byte, 128)
	line, _, _ := bytes.Cut(head[:runtime.Stack(head, false)], []byte("\n"))
	return bytes.Contains(line, []byte("synctest bubble"))
}

// checkBubble returns an error, in a testing/synctest bubble, for options that would wait for something outside: virtual time
// would never advance.
func (o *Options) checkBubble() error {
	for _, part := range []struct {
		set bool
		why string
	}{
		{o.Listen != noPort, `a port of this machine; set Options.Listen to "none", and use Config() or InProcess()`},
		{len(o.Etcd.Servers) > 0, "an etcd cluster; leave out Options.Etcd, and the objects are kept in memory"},
		{o.Data != "", "the embedded etcd, which writes to a disk; leave out Options.Data, and the objects are kept in memory"},
		{o.Runtime != "", "a container runtime; leave out Options.Runtime, and use hollow nodes (Options.Nodes)"},
	} {
		if part.set && insideBubble() {
			return fmt.Errorf("inside a bubble of testing/synctest, where time is virtual, there cannot be %s", part.why)
		}
	}
	return nil
}
