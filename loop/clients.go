package loop

import (
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

	"github.com/millrace/millrace/informer"
	"github.com/millrace/millrace/queue"
)

// Clients are what the loops of one process share. Nobody changes them once
// loops are made from them.
type Clients struct {
	Kube      kubernetes.Interface
	Dynamic   dynamic.Interface
	Metadata  metadata.Interface
	Discovery discovery.DiscoveryInterface

	// Informers holds one informer for each kind. Ask for it with [Informer].
	Informers *informer.Factory
	// Events writes the events of all components.
	Events *Events
	// Recorder records events in the name of this component.
	Recorder Recorder
	// Metrics counts the queues of all loops; nil means nobody does.
	Metrics queue.Metrics
	Log     *slog.Logger
	// Now is the clock.
	Now func() time.Time

	config     *rest.Config // nil if the clients were given
	connection *http.Client // of the config
}

// NewClients connects to the API server of config. It sets no limit to the
// rate of requests: loops limit their retries, and servers defend themselves.
// While the server cannot be reached log is told so once, and not of each try.
func NewClients(config *rest.Config, log *slog.Logger) (*Clients, error) {
	config = rest.CopyConfig(config)
	config.QPS = -1
	if config.UserAgent == "" {
		config.UserAgent = rest.DefaultKubernetesUserAgent()
	}
	if config.WarningHandler == nil && config.WarningHandlerWithContext == nil {
		// Some loops serve kinds that users are warned of, such as endpoints; a warning for each write helps nobody.
		config.WarningHandler = rest.NoWarnings{}
	}
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	config.Wrap((&outage{log: log, now: time.Now}).wrap)
	c := &Clients{}
	if err := c.connect(config); err != nil {
		return nil, err
	}
	c.share()
	c.Log = slog.New(calm{log.Handler()})
	c.Events.log = c.Log
	return c, nil
}

// connect makes the clients of one configuration.
func (c *Clients) connect(config *rest.Config) error {
	typed := rest.CopyConfig(config)
	typed.ContentType = "application/vnd.kubernetes.protobuf"
	typed.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
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

// ClientsFor makes Clients of a clientset, which may be a fake one. There is no
// dynamic and no metadata client unless the caller sets them.
func ClientsFor(kube kubernetes.Interface) *Clients {
	c := &Clients{Kube: kube, Discovery: kube.Discovery()}
	c.share()
	return c
}

// share makes what all loops have in common.
func (c *Clients) share() {
	// The clients that As returns differ from these, and must not get informers of their own, with a copy of all pods, because of that.
	c.Informers = informer.NewFactory(informer.FactoryOptions{OneServer: true})
	c.Events = NewEvents(c.Kube.CoreV1(), nil)
	c.Recorder = c.Events.For(corev1.EventSource{})
	c.Log, c.Now = slog.New(slog.DiscardHandler), time.Now
}

// As returns Clients that go by the name of program: the server names it as the
// manager of the fields that it writes. They share everything else. Clients
// that were not made from a config keep their name.
func (c *Clients) As(program string) *Clients {
	if c.config == nil {
		return c
	}
	as := *c
	config := rest.CopyConfig(c.config)
	config.UserAgent = fmt.Sprintf("%s/millrace (%s/%s)", program, runtime.GOOS, runtime.GOARCH)
	if err := as.connect(config); err != nil {
		return c // which was made of the same config, so that this does not happen
	}
	return &as
}

// Named returns Clients whose logger and recorder speak for the component
// name, and which share everything else.
func (c *Clients) Named(name string) *Clients {
	named := *c
	named.Log = c.log().With("component", name)
	if c.Events != nil {
		named.Recorder = c.Events.For(corev1.EventSource{Component: name})
	}
	return &named
}

// log is the logger, or one that discards.
func (c *Clients) log() *slog.Logger {
	if c == nil || c.Log == nil {
		return slog.New(slog.DiscardHandler)
	}
	return c.Log
}

// Run keeps the informers up to date and writes the events, until ctx ends.
func (c *Clients) Run(ctx context.Context) error {
	return Join(c.Informers, c.Events).Run(ctx)
}

// hotBytes bounds the objects of a kind that stay decoded, by their encoded size. Loops read an object soon after it
// changed, or not for a long time.
const hotBytes = 1 << 20

// Selection restricts what is listed, watched and cached, in the API's syntax.
type Selection struct{ Labels, Fields string }

// Informer returns the process's informer of a kind, which all that ask for
// the same kind, namespace and selection share. It keeps no managed fields. With
// a selection it caches only what that selects; there can be one at most.
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
		// client-go's fake clients accept a streamed list and never send it.
		DisableStreaming: watchlist.DoesClientNotSupportWatchListSemantics(c.Kube),
	})
}

// ErrNoConfig is returned where clients that were given, and not made from a
// configuration, cannot make another one.
var ErrNoConfig = errors.New("these clients were not made from a configuration")

// ResourceFor returns a client for any kind, such as a custom one, over a Go
// type of the caller's own or as a tree: see [informer.ResourceFor]. It is a
// source for [Informer], and what a [Writer] writes with.
func ResourceFor[T informer.Object](c *Clients, kind schema.GroupVersionKind, resource string) (informer.Resource[T], error) {
	if c.config == nil {
		return informer.Resource[T]{}, fmt.Errorf("client for %s: %w", resource, ErrNoConfig)
	}
	return informer.ResourceFor[T](c.config, c.connection, kind, resource)
}
