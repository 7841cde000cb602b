// Package plugins finds the plugins of a node, which register by a socket in the kubelet's directory plugins_registry.
//
// What is guaranteed: a plugin whose socket appears is asked who it is, handed to the handler of its type, and told
// whether it was accepted; it is taken from the handler when its socket disappears or is another one. One that is
// refused, or does not answer, is asked again after ever longer pauses. Handlers are called one at a time.
//
// What may not be assumed: that a plugin whose socket is there answers.
package plugins

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
)

const (
	// lookEvery is how often the directory of registrations is read.
	lookEvery = time.Second
	// callTime bounds the calls of one registration.
	callTime = 10 * time.Second
	// longestPause is how long a plugin that fails waits at the most until it is asked again.
	longestPause = 2 * time.Minute
)

// Plugin is what a plugin says of itself.
type Plugin struct {
	Type, Name string
	// Endpoint is the socket where it works, which may be that of the registration.
	Endpoint string
	Versions []string
}

// Handler works with the plugins of one type.
type Handler interface {
	// Accept takes a plugin. An error tells it why it was refused.
	Accept(ctx context.Context, p Plugin) error
	// Drop is told that an accepted plugin has gone.
	Drop(ctx context.Context, p Plugin)
	// Close ends the connections to all plugins, which stay registered with the cluster.
	Close()
}

// Options say where plugins register, and who takes them.
type Options struct {
	// Root is the kubelet's directory.
	Root string
	// Handlers are by type, such as "CSIPlugin".
	Handlers map[string]Handler
	Logger   *slog.Logger
}

// Registry is the registry of one node. It is a loop.Runner.
type Registry struct {
	Options
	known  map[string]entry // by socket, as failed
	failed map[string]failure
}

// failure is what hindered a registration, how long to pause after it, and until when.
type failure struct {
	err   string
	pause time.Duration
	until time.Time
}

// entry is a socket that was asked. A plugin of a type that nobody handles has no handler.
type entry struct {
	seen    time.Time
	plugin  Plugin
	handler Handler
}

// New makes a Registry.
func New(o Options) *Registry {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return &Registry{Options: o, known: map[string]entry{}, failed: map[string]failure{}}
}

func (r *Registry) directory() string { return filepath.Join(r.Root, "plugins_registry") }

// Run registers plugins until ctx ends.
func (r *Registry) Run(ctx context.Context) error {
	if err := os.MkdirAll(r.directory(), 0o750); err != nil {
		return fmt.Errorf("make the directory where plugins register: %w", err)
	}
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	defer func() {
		for _, h := range r.Handlers {
			h.Close()
		}
	}()
	for {
		r.look(ctx)
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// look compares the sockets that are there with those that are known.
func (r *Registry) look(ctx context.Context) {
	there := r.sockets()
	for socket, e := range r.known {
		if at, ok := there[socket]; ok && at.Equal(e.seen) {
			delete(there, socket)
			continue
		}
		delete(r.known, socket)
		if e.handler != nil {
			e.handler.Drop(ctx, e.plugin)
		}
	}
	for socket := range r.failed {
		if _, ok := there[socket]; !ok {
			delete(r.failed, socket)
		}
	}
	for socket, at := range there {
		before := r.failed[socket]
		if time.Now().Before(before.until) {
			continue
		}
		delete(r.failed, socket)
		if err := r.register(ctx, socket, at); err != nil && ctx.Err() == nil {
			if before.err != err.Error() { // the same failure is logged once
				r.Logger.Warn("plugin cannot be registered", "socket", socket, "err", err)
			}
			pause := min(max(2*before.pause, lookEvery/2), longestPause)
			r.failed[socket] = failure{err.Error(), pause, time.Now().Add(pause)}
		}
	}
}

// sockets are those in the directory, with the times when they were made.
func (r *Registry) sockets() map[string]time.Time {
	there := map[string]time.Time{}
	_ = filepath.WalkDir(r.directory(), func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return nil // it has gone meanwhile
		}
		if info, err := e.Info(); err == nil && info.Mode()&fs.ModeSocket != 0 {
			there[path] = info.ModTime()
		}
		return nil
	})
	return there
}

// register asks who is behind a socket, and tells them whether they are welcome.
func (r *Registry) register(ctx context.Context, socket string, seen time.Time) error {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	c, err := Dial(socket)
	if err != nil {
		return err
	}
	defer c.Close()
	registrar := registration.NewRegistrationClient(c)
	info, err := registrar.GetInfo(ctx, &registration.InfoRequest{})
	if err != nil {
		return fmt.Errorf("ask who it is: %w", err)
	}
	p := Plugin{Type: info.Type, Name: info.Name, Endpoint: info.Endpoint, Versions: info.SupportedVersions}
	if p.Endpoint == "" {
		p.Endpoint = socket
	}
	e := entry{seen: seen, plugin: p, handler: r.Handlers[p.Type]}
	problem := fmt.Errorf("no handler registered for plugin type: %s at socket %s", p.Type, socket)
	if e.handler != nil {
		problem = e.handler.Accept(ctx, p)
	}
	if problem == nil || e.handler == nil {
		r.known[socket] = e
	}
	status := &registration.RegistrationStatus{PluginRegistered: problem == nil}
	if problem != nil {
		status.Error = problem.Error()
	} else {
		r.Logger.Info("plugin registered", "type", p.Type, "plugin", p.Name)
	}
	_, err = registrar.NotifyRegistrationStatus(ctx, status)
	return errors.Join(problem, err)
}

// Dial connects to a plugin's socket.
func Dial(socket string, o ...grpc.DialOption) (*grpc.ClientConn, error) {
	return grpc.NewClient("unix://"+socket, append(o, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithAuthority("localhost"))...)
}
