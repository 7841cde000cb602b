package millrace

import (
	"log/slog"
	"slices"
	"time"

	"github.com/millrace/millrace/server/admission"
	"github.com/millrace/millrace/server/apiserver"
	"github.com/millrace/millrace/server/auth/webhook"
)

// Options say what runs and where.
type Options struct {
	// Data is the folder that keeps the cluster: etcd's data and the keys. Empty, or "memory", keeps nothing.
	Data string
	// Keys is the folder of keys and certificates: "pki" in the data folder by default.
	Keys string
	// Etcd names the servers of an etcd cluster to use instead of the embedded one.
	Etcd EtcdOptions
	// Listen is where the API is served: "127.0.0.1:0" by default. Port 0 takes a free one. With "none" there is no port, and the
	// API is reached from this process alone. A cluster in memory that has no port, kubelets of real containers aside, touches
	// nothing outside the process: it can live inside a bubble of testing/synctest, in virtual time.
	Listen string
	// Advertise is the address by which pods and other servers reach this one: it stands in the endpoints of the Service "kubernetes".
	// Empty is the address that the server listens on or, if that is a loopback or unspecified address, the one of the machine's
	// default route. A server without a port has no endpoints, unless an address is given.
	Advertise string
	// Hosts are further names and addresses in the server's certificate.
	Hosts []string
	// TokenFile lists static tokens, as kube-apiserver's --token-auth-file does.
	TokenFile string
	// Authorization are the modes of authorization, in the order in which they are asked and in the words of kube-apiserver's
	// --authorization-mode: by default Node and RBAC. A cluster with nodes of its own has Node in any case. Members of system:masters may do everything, whatever the modes.
	Authorization []string
	// AuthorizationWebhook is asked in the mode Webhook.
	AuthorizationWebhook webhook.AuthorizerOptions
	// Authentication says who is believed, beyond certificates and tokens of the cluster's own.
	Authentication AuthenticationOptions
	// Controllers selects the loops, in the words of kube-controller-manager's --controllers: "*" for all that are on by
	// default, "foo" for one, "-foo" for all but one. Nil is "*" and the loops of bootstrap tokens; an empty list runs none.
	Controllers []string
	// ControllersElsewhere says that they run in another process, so that pods get accounts as if they ran here.
	ControllersElsewhere bool
	// NoScheduler leaves pods without a node.
	NoScheduler bool
	// Nodes is how many hollow nodes run: nodes whose containers are pretended.
	Nodes int
	// Runtime is the socket of a container runtime (CRI). With it this machine becomes a node.
	Runtime string
	// PodRange is where pods of real containers get their addresses, with a comma between two families. With it and a Runtime the
	// machine becomes part of the cluster's network: pods, services and names work. Empty leaves the machine's network alone.
	PodRange string
	// CNI says where the container runtime looks for CNI configurations and plugins: /etc/cni/net.d and /opt/cni/bin by default.
	CNI CNIOptions
	// ServiceRange is where services get their addresses: 10.96.0.0/16 by default.
	ServiceRange string
	// AllowPrivileged lets pods have privileged containers.
	AllowPrivileged bool
	// Uncached names group-resources ("configmaps", "deployments.apps") that are served without a watch cache; "*" is all
	// of them.
	Uncached []string
	// Window bounds, for a group-resource, how much history the watch cache keeps. Nil, and zeros, are the defaults.
	Window func(groupResource string) (events, bytes int)
	// CompactEvery is how long the store keeps history: five minutes by default, for ever if less than zero.
	CompactEvery time.Duration
	// Audit says what is written down of requests, and Encryption what is encrypted in the store.
	Audit      AuditOptions
	Encryption EncryptionOptions
	// Admission chooses and sets up the plugins that have a say in changes.
	Admission AdmissionOptions
	// Serving bounds what is served, and by which certificates.
	Serving ServingOptions
	// Logger gets what happens; nil discards it.
	Logger *slog.Logger
}

// AdmissionOptions are the flags of kube-apiserver for admission plugins. The zero value is the default set.
type AdmissionOptions struct {
	// Enable and Disable name plugins that are not as they are by default.
	Enable, Disable []string
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

// CNIOptions are the folders of a container runtime's network.
type CNIOptions struct {
	ConfigurationFolder, PluginFolder string
}

// noPort is the address of a server that does not listen.
const noPort = "none"

// EtcdOptions say how to reach an etcd cluster.
type EtcdOptions struct {
	Servers                   []string
	CertFile, KeyFile, CAFile string
	// StartTimeout is how long Start waits for an etcd that does not answer: 20 seconds by default.
	StartTimeout time.Duration
}

// ServingOptions say how the API is served beyond the ordinary. Zero values are the ordinary.
type ServingOptions struct {
	// CertFile and KeyFile are served instead of a certificate of the cluster's own authority.
	CertFile, KeyFile string
	// ClientCAFile holds authorities whose client certificates are believed besides the cluster's own.
	ClientCAFile string
	// KubeletCAFile holds the authorities that must have signed the serving certificates of kubelets. Without it they are
	// believed as they are.
	KubeletCAFile string
	// Issuer is the issuer of service account tokens, https://kubernetes.default.svc.cluster.local by default, and SigningKeyFile the
	// key that signs them, sa.key in the folder of keys by default.
	Issuer, SigningKeyFile string
	// MaxInFlight and MaxMutatingInFlight bound the requests that are served at the same time: 400 and 200 by default. Their sum is
	// divided by the FlowSchemas and PriorityLevelConfigurations of the cluster; with NoFairness they are two bounds for all together.
	MaxInFlight, MaxMutatingInFlight int
	NoFairness                       bool
	// RequestTimeout ends requests that are not long-running, after a minute by default; MinRequestTimeout is the least time
	// that a watch stays open, half an hour by default.
	RequestTimeout, MinRequestTimeout time.Duration
	// BookmarkPeriod is how often a watch that asked for bookmarks gets one: every minute by default.
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
	if o.Serving.Issuer == "" {
		o.Serving.Issuer = "https://kubernetes.default.svc.cluster.local"
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
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
}
