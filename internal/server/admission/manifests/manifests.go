package manifests

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/millrace/millrace/internal/server/auth/reload"
	"github.com/millrace/millrace/internal/server/resource"
)

// Options say what is read. Plugin, Directory and Served are required.
type Options struct {
	// Plugin is the name of the plugin whose objects these are.
	Plugin    string
	Directory string
	// Served has the kinds of the objects.
	Served *resource.Catalogue
	// ServerID names the API server in metrics.
	ServerID string
	Logger   *slog.Logger
}

// Manifests are the objects of a directory. They are a prometheus.Collector.
type Manifests struct {
	prometheus.Collector
	o       Options
	kinds   []*resource.Kind
	reloads *reload.Metrics
	now     atomic.Pointer[state]
	read    []byte // the files as they were read last; Run's alone
	failed  string // why they could not be read, if they could not; Run's alone
}

// state is the objects that are in force until changed is closed.
type state struct {
	objects []resource.Object
	changed chan struct{}
}

// Open reads a directory for the first time.
func Open(o Options) (*Manifests, error) {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	m := &Manifests{o: o, reloads: reload.New("manifest_admission", o.ServerID)}
	m.Collector = prometheus.WrapCollectorWith(prometheus.Labels{"plugin": o.Plugin}, m.reloads)
	for _, name := range plugins[o.Plugin].resources {
		kind, ok := o.Served.Kind(schema.GroupResource{Group: admissionv1.GroupName, Resource: name})
		if !ok {
			return nil, fmt.Errorf("%s are not served", name)
		}
		m.kinds = append(m.kinds, kind)
	}
	files, err := listing(o.Directory)
	if err != nil {
		return nil, err
	}
	objects, err := read(m.kinds, files)
	if err != nil {
		return nil, err
	}
	m.read = joined(files)
	m.now.Store(&state{objects, make(chan struct{})})
	m.reloads.Using(m.read)
	return m, nil
}

// Objects are the present ones: policies before bindings, by name.
func (m *Manifests) Objects() []resource.Object { return m.now.Load().objects }

// Changed is closed when there are other objects.
func (m *Manifests) Changed() <-chan struct{} { return m.now.Load().changed }

// lookEvery is how often the files are read. Events of the file system would be cheaper, but there are none on some
// network file systems.
const lookEvery = time.Second

// Run follows the files until ctx ends.
func (m *Manifests) Run(ctx context.Context) error {
	wait.UntilWithContext(ctx, func(context.Context) { m.look() }, lookEvery)
	return ctx.Err()
}

// look uses the files if they have changed. What is wrong with them is reported once.
func (m *Manifests) look() {
	files, err := listing(m.o.Directory)
	if err != nil {
		if err.Error() != m.failed {
			m.fail(err)
		}
		return
	}
	text := joined(files)
	if bytes.Equal(text, m.read) && m.failed == "" {
		return
	}
	m.read, m.failed = text, ""
	objects, err := read(m.kinds, files)
	if err != nil {
		m.reloads.Failed()
		m.report(err)
		return
	}
	before := m.now.Swap(&state{objects, make(chan struct{})})
	close(before.changed)
	m.reloads.Reloaded(text)
	m.o.Logger.Info("the admission manifests were read again", "plugin", m.o.Plugin, "directory", m.o.Directory, "objects", len(objects))
}

// fail reports files that cannot be read.
func (m *Manifests) fail(err error) {
	m.failed = err.Error()
	m.reloads.Failed()
	m.report(err)
}

func (m *Manifests) report(err error) {
	m.o.Logger.Error("the changed admission manifests cannot be used: the ones before stay in force", "plugin", m.o.Plugin, "directory", m.o.Directory, "error", err)
}
