package cri

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/millrace/millrace/internal/kubelet/container"
)

const (
	// requestTime is the default of Options.RequestTime.
	requestTime = 2 * time.Minute
	// stopTime is how long after the grace period the runtime may take to report a container's end. If it has missed
	// the end, the next Stop finds it.
	stopTime = 30 * time.Second
	// reconnect is the longest delay between two attempts to reach the runtime.
	reconnect = 3 * time.Second
	// silentTime is how long after a command's timeout the runtime may take to report it.
	silentTime = 10 * time.Second
	maxMessage = 16 << 20
)

// Options say where the runtime is.
type Options struct {
	// Socket is a path or a unix:// URL.
	Socket string
	// Images is the socket of the image service, if it has its own.
	Images string
	// Addresses are the node's addresses, for pods that share its network.
	Addresses []string
	// PollEvery is the time between two comparisons if the runtime sends no events. With events it is thirty times as
	// long. 0 means one second.
	PollEvery time.Duration
	// CgroupParent is the parent cgroup of all pods. If empty, the runtime decides.
	CgroupParent string
	// Profiles is the directory with seccomp profiles of this machine.
	Profiles string
	// SeccompDefault gives containers that name no seccomp profile the runtime's. Otherwise they have none, as in
	// Kubernetes.
	SeccompDefault bool
	// NoCPUQuota does not enforce limits of CPU time.
	NoCPUQuota bool
	// CPUPeriod is the period in which limits of CPU time apply: 100 ms by default.
	CPUPeriod time.Duration
	// PIDs is how many processes a container may have. 0 means no limit.
	PIDs int64
	// RequestTime bounds requests: two minutes by default. Those that make a sandbox may take twice as long, and those
	// that pull an image take as long as they do.
	RequestTime time.Duration
	Logger      *slog.Logger
}

// Runtime is a client of a CRI runtime.
type Runtime struct {
	Options
	conn, imageConn *grpc.ClientConn
	runtime         runtimeapi.RuntimeServiceClient
	images          runtimeapi.ImageServiceClient
	name            atomic.Pointer[string]
	compared        atomic.Pointer[time.Time]
}

var (
	_ container.Runtime = (*Runtime)(nil)
	_ container.Images  = (*Runtime)(nil)
)

// Open returns a Runtime. It connects with the first request, and reconnects by itself.
func Open(o Options) (*Runtime, error) {
	o.PollEvery, o.RequestTime = cmp.Or(o.PollEvery, time.Second), cmp.Or(o.RequestTime, requestTime)
	o.CPUPeriod = cmp.Or(o.CPUPeriod, defaultPeriod)
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Images == "" {
		o.Images = o.Socket
	}
	r := &Runtime{Options: o}
	r.compareDone()
	var err error
	if r.conn, err = dial(o.Socket); err != nil {
		return nil, err
	}
	r.imageConn = r.conn
	if o.Images != o.Socket {
		if r.imageConn, err = dial(o.Images); err != nil {
			r.conn.Close()
			return nil, err
		}
	}
	r.runtime, r.images = runtimeapi.NewRuntimeServiceClient(r.conn), runtimeapi.NewImageServiceClient(r.imageConn)
	return r, nil
}

func dial(socket string) (*grpc.ClientConn, error) {
	path := "unix://" + strings.TrimPrefix(socket, "unix://")
	conn, err := grpc.NewClient(path, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff: backoff.Config{BaseDelay: reconnect / 10, Multiplier: 1.6, Jitter: 0.2, MaxDelay: reconnect}, MinConnectTimeout: reconnect,
		}),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage)))
	if err != nil {
		return nil, fmt.Errorf("reach the container runtime at %s: %w", socket, err)
	}
	return conn, nil
}

// Close ends the connection.
func (r *Runtime) Close() error {
	if r.imageConn != r.conn {
		r.imageConn.Close()
	}
	return r.conn.Close()
}

func (r *Runtime) compareDone() {
	now := time.Now()
	r.compared.Store(&now)
}

// Compared returns when Events last compared all containers.
func (r *Runtime) Compared() time.Time { return *r.compared.Load() }

// Version returns the runtime's name and version, and what it can.
func (r *Runtime) Version(ctx context.Context) (container.Version, error) {
	ctx, cancel := context.WithTimeout(ctx, r.RequestTime)
	defer cancel()
	v, err := r.runtime.Version(ctx, &runtimeapi.VersionRequest{Version: "v1"})
	if err != nil {
		return container.Version{}, fmt.Errorf("ask the container runtime for its version: %w", err)
	}
	r.name.Store(&v.RuntimeName)
	s, err := r.status(ctx)
	if err != nil {
		return container.Version{}, err
	}
	return container.Version{Name: v.RuntimeName, Version: v.RuntimeVersion, Handlers: handlers(s), Features: corev1.NodeFeatures{
		SupplementalGroupsPolicy: new(s.GetFeatures().GetSupplementalGroupsPolicy()),
	}}, nil
}

// Ready returns why the runtime does not work, and why it has no network for pods. Empty strings mean ready.
func (r *Runtime) Ready(ctx context.Context) (problem, network string) {
	s, err := r.status(ctx)
	if err != nil {
		return err.Error(), ""
	}
	return conditions(s)
}

func (r *Runtime) status(ctx context.Context) (*runtimeapi.StatusResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	s, err := r.runtime.Status(ctx, &runtimeapi.StatusRequest{})
	if err != nil {
		return nil, fmt.Errorf("container runtime is down: %w", err)
	}
	return s, nil
}

func conditions(s *runtimeapi.StatusResponse) (problem, network string) {
	for _, c := range s.GetStatus().GetConditions() {
		words := fmt.Sprintf("%s=%t reason:%s message:%s", c.Type, c.Status, c.Reason, c.Message)
		switch {
		case c.Type == runtimeapi.NetworkReady && !c.Status:
			network = "container runtime network not ready: " + words
		case c.Type == runtimeapi.RuntimeReady && !c.Status:
			problem = "container runtime not ready: " + words
		}
	}
	return problem, network
}

// identity returns a container ID as the API shows it: with the runtime's name as prefix.
func (r *Runtime) identity(ctx context.Context, id string) string {
	name := r.name.Load()
	if name == nil {
		if _, err := r.Version(ctx); err != nil {
			return id
		}
		name = r.name.Load()
	}
	return *name + "://" + id
}

// plain returns an ID without the prefix.
func plain(id string) string {
	if _, rest, ok := strings.Cut(id, "://"); ok {
		return rest
	}
	return id
}

// ignoreMissing returns nil for the error that something does not exist.
func ignoreMissing(err error) error {
	if missing(err) {
		return nil
	}
	return err
}

func missing(err error) bool { return status.Code(err) == codes.NotFound }

// Events follows the runtime's events, if it has any, and also compares lists from time to time.
func (r *Runtime) Events(ctx context.Context, changed func(types.UID)) error {
	return newPoll(r, changed).run(ctx)
}
