package millrace

import (
	"crypto/tls"
	"regexp"
	"time"
)

// ServingOptions configure how the API is served. Zero values mean the defaults.
type ServingOptions struct {
	// CertFile and KeyFile have the serving certificate. By default the cluster's own CA signs one.
	CertFile, KeyFile string
	// TLS configures the versions and ciphers of TLS, and certificates for certain names.
	TLS TLSOptions
	// ClientCAFile has additional CA certificates for client certificates. By default only those of the cluster's own
	// CA are accepted.
	ClientCAFile string
	// OnlyGiven says that CertFile, ClientCAFile and Tokens.SigningKeyFile are all that this server needs: it makes no
	// keys of its own, and trusts and publishes nobody but those in files. Then the certificate in Kubeconfig is none that
	// the server accepts, and Config and User call it without a connection.
	OnlyGiven bool
	// KubeletCAFile has the CA certificates that verify the kubelets' serving certificates. Without it they are not
	// verified.
	KubeletCAFile string
	// Kubelets configures the connections to kubelets.
	Kubelets KubeletOptions
	// Proxy has the client certificate for the servers of aggregated API groups.
	Proxy ProxyOptions
	// Tokens configure service account tokens.
	Tokens TokenOptions
	// MaxInFlight and MaxMutatingInFlight limit the requests that are served at the same time: 400 and 200 by default.
	// API Priority and Fairness divides their sum. With NoFairness they are two limits for all clients together.
	MaxInFlight, MaxMutatingInFlight int
	// NoFairness turns off API Priority and Fairness, so that one client can take all places.
	NoFairness bool
	// RequestTimeout ends requests that are not long-running: after a minute by default. MinRequestTimeout is the
	// minimum time that a watch stays open: half an hour by default.
	RequestTimeout, MinRequestTimeout time.Duration
	// NoProfiling leaves out the profiles of this process below /debug/pprof.
	NoProfiling bool
	// ShutdownDelay is how long the server continues after Close was called, while /readyz says that it is not ready.
	// So load balancers have time to send requests elsewhere. None by default.
	ShutdownDelay time.Duration
	// ExternalHostname is the name of this server in documents for clients from outside. By default it is the address
	// at which pods reach it.
	ExternalHostname string
	// Headers are HTTP headers that the server's port sends.
	Headers HeaderOptions
	// Flags are those of the program with their values, which the page /flagz shows. Without them there is none.
	Flags map[string]string
	// FeatureGates turn features on and off by Kubernetes' names. Those that are followed are APIServerIdentity, the lease
	// by which others know the server, and ComponentFlagz and ComponentStatusz, the pages. All are on by default.
	FeatureGates map[string]bool
	// BookmarkPeriod is how often a watch with bookmarks gets one: every minute by default.
	BookmarkPeriod time.Duration
}

// TLSOptions configure the TLS of the server's port. Zero values mean the defaults of Go, and at least TLS 1.2.
type TLSOptions struct {
	// MinVersion is the oldest version of TLS that is accepted.
	MinVersion uint16
	// CipherSuites are those that are accepted for TLS 1.2 and older, Curves the key exchanges.
	CipherSuites []uint16
	Curves       []tls.CurveID
	// Named are certificates for clients that ask for certain names (SNI).
	Named []NamedCertificateFiles
}

// NamedCertificateFiles are the files of a certificate for clients that ask for certain names. They are read again when
// they change.
type NamedCertificateFiles struct {
	CertFile, KeyFile string
	// Names are domains, whose first label may be "*", and addresses of this server, for clients that ask for no name.
	// Without Names the certificate is served for the domains that it contains.
	Names []string
}

// KubeletOptions configure the API server's connections to kubelets. Zero values mean the defaults.
type KubeletOptions struct {
	// CertFile and KeyFile have the client certificate that identifies the API server to kubelets. They are read again
	// when they change. By default the cluster's own CA signs one. The nodes of this process serve that one without
	// asking anybody.
	CertFile, KeyFile string
	// Timeout bounds how long connecting to a kubelet may take: by default 30 seconds, and 10 of them for TLS.
	Timeout time.Duration
	// AddressTypes are the types of node addresses to use, in order of preference: by default InternalIP, ExternalIP,
	// Hostname, InternalDNS, ExternalDNS.
	AddressTypes []string
}

// ProxyOptions have the client certificate with which this server, as a front proxy, calls the servers of aggregated
// API groups. The files are read again when they change. By default the cluster's own authority of front proxies signs
// one. These servers learn whom to trust from a config map, which also gets the authorities in
// AuthenticationOptions.ProxyCAFile and ServingOptions.ClientCAFile.
type ProxyOptions struct {
	CertFile, KeyFile string
}

// TokenOptions configure service account tokens. Zero values mean the defaults.
type TokenOptions struct {
	// Issuers are the issuers of tokens: the first makes them, all are accepted. The default is
	// https://kubernetes.default.svc.cluster.local.
	Issuers []string
	// Audiences are what tokens for this API server are meant for: the issuers by default.
	Audiences []string
	// SigningKeyFile is the key that signs tokens, RSA or ECDSA: sa.key in the directory of keys by default. KeyFiles
	// have public keys that verify tokens besides it.
	SigningKeyFile string
	KeyFiles       []string
	// KeysURI is where clients find the public keys: this server by default.
	KeysURI string
	// MaxLife bounds how long tokens are valid; zero does not.
	MaxLife time.Duration
	// NoExtension lets tokens of pods expire when they are to be renewed. By default they are then valid for another
	// year, as in Kubernetes.
	NoExtension bool
}

// HeaderOptions configure HTTP headers of the server's port. By default it sends none of them.
type HeaderOptions struct {
	// StrictTransport are the directives of the header Strict-Transport-Security, such as max-age=31536000.
	StrictTransport []string
	// Origins match the origins whose pages may call the server from a browser (CORS).
	Origins []*regexp.Regexp
	// GoAwayChance is the share of HTTP/2 requests after which the client is told to connect again, so that clients are
	// spread over the servers behind a load balancer.
	GoAwayChance float64
}
