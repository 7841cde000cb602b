package loop

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/watchlist"

	"github.com/millrace/millrace/cause"
	"github.com/millrace/millrace/informer"
	"github.com/millrace/millrace/internal/quiet"
	"github.com/millrace/millrace/queue"
)

// Clients is what all loops of a process share. It must not be changed once a loop was made from it.
type Clients struct {
	Kube      kubernetes.Interface
	Dynamic   dynamic.Interface
	Metadata  metadata.Interface
	Discovery discovery.DiscoveryInterface

	// Informers has one informer for each kind. Use [Informer] to get it.
	Informers *informer.Factory
	// Events writes the events of all components.
	Events *Events
	// Recorder records events with this component as their source.
	Recorder Recorder
	// Metrics counts the queues of all loops; nil counts nothing.
	Metrics queue.Metrics
	// Workers returns how many keys the loop of a name syncs at the same time; 0 leaves it at the loop's own number. It
	// may be nil.
	Workers func(loop string) int
	Log     *slog.Logger
	// Now is the clock.
	Now func() time.Time

	alone bool

	config     *rest.Config // nil if the clients were passed in
	connection *http.Client // made from config
}

// NewClients connects to the API server of config. It does not limit the rate of requests, unless [LimitRequests] was
// called: loops limit their retries, and servers protect themselves. When the server cannot be reached, that is logged
// once, not for each request. Requests that write carry what has caused them: see package cause.
func NewClients(config *rest.Config, log *slog.Logger) (*Clients, error) {
	config = rest.CopyConfig(config)
	config.QPS = -1
	if config.UserAgent == "" {
		config.UserAgent = rest.DefaultKubernetesUserAgent()
	}
	if config.WarningHandler == nil && config.WarningHandlerWithContext == nil {
		// Some loops write kinds for which the server sends deprecation warnings, such as Endpoints. One warning for
		// each write helps nobody.
		config.WarningHandler = rest.NoWarnings{}
	}
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	config.Wrap((&outage{log: log, now: time.Now}).wrap)
	config.Wrap(cause.Transport)
	c := &Clients{}
	if err := c.connect(config); err != nil {
		return nil, err
	}
	c.share()
	c.Log = slog.New(quiet.Handler{Handler: log.Handler(), Lower: causedByOutage})
	c.Events.log = c.Log
	return c, nil
}

// connect makes the clients for a configuration.
func (c *Clients) connect(config *rest.Config) error {
	typed := rest.CopyConfig(config)
	if typed.ContentType == "" {
		typed.ContentType = "application/vnd.kubernetes.protobuf"
		typed.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
	}
	transport, err := rest.HTTPClientFor(config)
	if err != nil {
		return fmt.Errorf("connect to the API server: %w", err)
	}
	kube, err := kubernetes.NewForConfigAndClient(typed, transport)
	if err != nil {
		return fmt.Errorf("make typed clients: %w", err)
	}
	if c.Dynamic, err = dynamic.NewForConfigAndClient(config, transport); err != nil {
		return fmt.Errorf("make the dynamic client: %w", err)
	}
	if c.Metadata, err = metadata.NewForConfigAndClient(config, transport); err != nil {
		return fmt.Errorf("make the metadata client: %w", err)
	}
	c.config, c.connection, c.Kube, c.Discovery = config, transport, kube, kube.Discovery()
	return nil
}

// aloneFor is how long watches last if no other process reaches the API server.
const aloneFor = 12 * time.Hour

// SetAlone says that no other process reaches the API server: nothing changes of which this one is not told, so that
// polls are rare and watches long. It must be called before any informer is made.
func (c *Clients) SetAlone() {
	c.alone = true
	c.Informers = informer.NewFactory(informer.FactoryOptions{OneServer: true, WatchFor: c.WatchFor()})
}

// Alone reports whether SetAlone was called.
func (c *Clients) Alone() bool { return c.alone }

// WatchFor returns how long the watches of informers last that a loop makes for itself. Zero is the informers' default.
func (c *Clients) WatchFor() time.Duration {
	if c.alone {
		return aloneFor
	}
	return 0
}

// ClientsFor returns Clients for a clientset, which may be a fake one. The dynamic client and the metadata client are
// nil unless the caller sets them.
func ClientsFor(kube kubernetes.Interface) *Clients {
	c := &Clients{Kube: kube, Discovery: kube.Discovery()}
	c.share()
	return c
}

// share makes what all loops share.
func (c *Clients) share() {
	// The clients that As returns must share these informers. Otherwise each would have its own copy of all pods.
	c.Informers = informer.NewFactory(informer.FactoryOptions{OneServer: true})
	c.Events = NewEvents(c.Kube.CoreV1(), nil)
	c.Recorder = c.Events.For(corev1.EventSource{})
	c.Log, c.Now = slog.New(slog.DiscardHandler), time.Now
}

// As returns Clients that send program as their user agent, which becomes the name of the field manager. Everything
// else is shared. Clients that were not made from a config are returned unchanged.
func (c *Clients) As(program string) *Clients {
	if c.config == nil {
		return c
	}
	as := *c
	config := rest.CopyConfig(c.config)
	config.UserAgent = fmt.Sprintf("%s/millrace (%s/%s)", program, runtime.GOOS, runtime.GOARCH)
	if err := as.connect(config); err != nil {
		return c // cannot happen: the first clients were made from the same config
	}
	return &as
}

// Named returns Clients whose logger and recorder use the component's name. Everything else is shared.
func (c *Clients) Named(name string) *Clients {
	named := *c
	named.Log = c.log().With("component", name)
	if c.Events != nil {
		named.Recorder = c.Events.For(corev1.EventSource{Component: name})
	}
	return &named
}

// WorkersOf returns how many keys the loop of a name syncs at the same time: its own number, unless Workers says
// another.
func (c *Clients) WorkersOf(loop string, own int) int {
	if c != nil && c.Workers != nil {
		return cmp.Or(c.Workers(loop), own)
	}
	return own
}

// log returns the logger, or one that discards.
func (c *Clients) log() *slog.Logger {
	if c == nil || c.Log == nil {
		return slog.New(slog.DiscardHandler)
	}
	return c.Log
}

// Run runs the informers and writes the events until ctx ends.
func (c *Clients) Run(ctx context.Context) error {
	return Join(c.Informers, c.Events).Run(ctx)
}

// hotBytes limits the decoded objects of a kind, by their encoded size. Loops read an object soon after it has changed,
// or not for a long time.
const hotBytes = 1 << 20

// Selection selects what is listed, watched and cached, in the syntax of the API's selectors.
type Selection struct{ Labels, Fields string }

// Informer returns the process's informer for a kind. All callers with the same kind, namespace and selection share
// one. It drops managed fields. At most one selection may be given; only the selected objects are cached.
func Informer[T informer.Object](c *Clients, source informer.Source[T], only ...Selection) *informer.Shared[T] {
	var selected Selection
	for _, s := range only {
		selected = s
	}
	return informer.Share(c.Informers, source, informer.Options[T]{
		LabelSelector:     selected.Labels,
		FieldSelector:     selected.Fields,
		Logger:            c.log(),
		DropManagedFields: true,
		HotBytes:          hotBytes,
		// client-go's fake clients accept a streaming list and never send it.
		DisableStreaming: watchlist.DoesClientNotSupportWatchListSemantics(c.Kube),
	})
}

// ErrNoConfig is returned when clients that were not made from a configuration would need it to make another client.
var ErrNoConfig = errors.New("these clients were not made from a configuration")

// ResourceFor returns a client for any kind, including custom ones, with a Go type of the caller or a JSON tree: see
// [informer.ResourceFor]. It is a source for [Informer] and the client of a [Writer].
func ResourceFor[T informer.Object](c *Clients, kind schema.GroupVersionKind, resource string) (informer.Resource[T], error) {
	if c.config == nil {
		return informer.Resource[T]{}, fmt.Errorf("client for %s: %w", resource, ErrNoConfig)
	}
	return informer.ResourceFor[T](c.config, c.connection, kind, resource)
}
