package cri

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// fake is a container runtime that can be told to fail.
type fake struct {
	runtimeapi.RuntimeServiceClient // methods that are not overridden are never called
	runtimeapi.ImageServiceClient
	t *testing.T
	// before is called at the start of each call, and checked for each sandbox that is made.
	before    func(call string)
	checked   func(*runtimeapi.PodSandboxConfig)
	noNetwork bool // there is no network configuration

	mu     sync.Mutex // guards what follows
	boxes  map[string]*runtimeapi.PodSandbox
	runs   map[string]*runtimeapi.ContainerStatus
	of     map[string]string // container ID → sandbox ID
	images map[string]bool
	count  int
	calls  map[string]int
	broken map[string]bool // calls that always fail
	fault  fault
	spent  bool
}

// fault describes how one call fails.
type fault struct {
	call string
	// nth counts the calls of that name, from 1.
	nth  int
	sort string
}

// The kinds of faults. A silent call never answers. half leaves a sandbox behind although creating it failed.
const (
	fails      = "fails"
	silent     = "is silent"
	doneSilent = "is done and silent"
	doneFails  = "is done and fails"
	half       = "is half done and fails"
)

func newFake(t *testing.T, f fault) *fake {
	return &fake{
		t: t, before: func(string) {}, checked: func(*runtimeapi.PodSandboxConfig) {}, fault: f, broken: map[string]bool{}, boxes: map[string]*runtimeapi.PodSandbox{}, runs: map[string]*runtimeapi.ContainerStatus{},
		of: map[string]string{}, images: map[string]bool{}, calls: map[string]int{},
	}
}

// open returns a Runtime that talks to the fake.
func (f *fake) open() *Runtime {
	r := &Runtime{Options: Options{PollEvery: time.Second, RequestTime: requestTime, CPUPeriod: defaultPeriod}, runtime: f, images: f}
	r.Logger = silentLog
	r.compareDone()
	return r
}

var errFault = status.Error(codes.Internal, "the runtime is not well")

// call runs do, or fails if a fault is planned for this call.
func call[T any](ctx context.Context, f *fake, name string, do func() (T, error)) (answer T, err error) {
	f.before(name)
	sort := f.turn(name)
	switch sort {
	case fails:
		return answer, errFault
	case silent:
		<-ctx.Done()
		return answer, status.FromContextError(ctx.Err()).Err()
	}
	if ctx.Err() != nil {
		return answer, status.FromContextError(ctx.Err()).Err()
	}
	f.mu.Lock()
	answer, err = do()
	f.mu.Unlock()
	switch sort {
	case doneFails, half:
		var none T
		return none, errFault
	case doneSilent:
		<-ctx.Done()
		var none T
		return none, status.FromContextError(ctx.Err()).Err()
	}
	return answer, err
}

// turn returns how this call fails, or "".
func (f *fake) turn(name string) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls[name]++
	if f.broken[name] {
		return fails
	}
	if name != f.fault.call || f.calls[name] != f.fault.nth || f.spent {
		return ""
	}
	f.spent = true
	return f.fault.sort
}

// setBroken makes all calls of a name fail, or none.
func (f *fake) setBroken(name string, broken bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.broken[name] = broken
}

func (f *fake) asked(name string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.calls[name]
}

// living returns how many sandboxes and containers of a pod have not ended.
func (f *fake) living(uid string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := 0
	for _, b := range f.boxes {
		if b.Metadata.Uid == uid && b.State == runtimeapi.PodSandboxState_SANDBOX_READY {
			n++
		}
	}
	for _, s := range f.runs {
		if s.Labels[labelUID] == uid && s.State != runtimeapi.ContainerState_CONTAINER_EXITED {
			n++
		}
	}
	return n
}

func (f *fake) left() (boxes, runs int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.boxes), len(f.runs)
}

func (f *fake) Version(ctx context.Context, _ *runtimeapi.VersionRequest, _ ...grpc.CallOption) (*runtimeapi.VersionResponse, error) {
	return &runtimeapi.VersionResponse{RuntimeName: "fake", RuntimeVersion: "1"}, nil
}

func (f *fake) Status(ctx context.Context, _ *runtimeapi.StatusRequest, _ ...grpc.CallOption) (*runtimeapi.StatusResponse, error) {
	return call(ctx, f, "Status", func() (*runtimeapi.StatusResponse, error) {
		return &runtimeapi.StatusResponse{Status: &runtimeapi.RuntimeStatus{Conditions: []*runtimeapi.RuntimeCondition{
			{Type: runtimeapi.RuntimeReady, Status: true}, f.networkCondition(),
		}}}, nil
	})
}

func (f *fake) networkCondition() *runtimeapi.RuntimeCondition {
	if f.noNetwork {
		return &runtimeapi.RuntimeCondition{Type: runtimeapi.NetworkReady, Reason: "NetworkPluginNotReady", Message: "cni plugin not initialized"}
	}
	return &runtimeapi.RuntimeCondition{Type: runtimeapi.NetworkReady, Status: true}
}

func (f *fake) GetContainerEvents(context.Context, *runtimeapi.GetEventsRequest, ...grpc.CallOption) (grpc.ServerStreamingClient[runtimeapi.ContainerEventResponse], error) {
	return nil, status.Error(codes.Unimplemented, "there are no events")
}

func (f *fake) nameLocked(what string) string {
	f.count++
	return fmt.Sprintf("%s-%d", what, f.count)
}

func (f *fake) RunPodSandbox(ctx context.Context, r *runtimeapi.RunPodSandboxRequest, _ ...grpc.CallOption) (*runtimeapi.RunPodSandboxResponse, error) {
	return call(ctx, f, "RunPodSandbox", func() (*runtimeapi.RunPodSandboxResponse, error) {
		f.checked(r.Config)
		for _, b := range f.boxes {
			if m := r.Config.Metadata; b.Metadata.Uid == m.Uid && b.Metadata.Attempt == m.Attempt {
				return nil, status.Errorf(codes.AlreadyExists, "the name is reserved for %s", b.Id)
			}
		}
		b := &runtimeapi.PodSandbox{Id: f.nameLocked("box"), Metadata: r.Config.Metadata, Labels: r.Config.Labels, CreatedAt: time.Now().UnixNano()}
		if f.fault.sort == half && f.spent && f.calls["RunPodSandbox"] == f.fault.nth {
			b.State = runtimeapi.PodSandboxState_SANDBOX_NOTREADY
		}
		f.boxes[b.Id] = b
		return &runtimeapi.RunPodSandboxResponse{PodSandboxId: b.Id}, nil
	})
}

func (f *fake) StopPodSandbox(ctx context.Context, r *runtimeapi.StopPodSandboxRequest, _ ...grpc.CallOption) (*runtimeapi.StopPodSandboxResponse, error) {
	return call(ctx, f, "StopPodSandbox", func() (*runtimeapi.StopPodSandboxResponse, error) {
		b := f.boxes[r.PodSandboxId]
		if b == nil {
			return nil, status.Error(codes.NotFound, "no such sandbox")
		}
		b.State = runtimeapi.PodSandboxState_SANDBOX_NOTREADY
		b.Annotations = map[string]string{"stopped": "true"}
		for id, s := range f.runs {
			if f.of[id] == b.Id {
				endRun(s, 137)
			}
		}
		return &runtimeapi.StopPodSandboxResponse{}, nil
	})
}

// RemovePodSandbox refuses a sandbox that was not stopped, because its network still exists.
func (f *fake) RemovePodSandbox(ctx context.Context, r *runtimeapi.RemovePodSandboxRequest, _ ...grpc.CallOption) (*runtimeapi.RemovePodSandboxResponse, error) {
	return call(ctx, f, "RemovePodSandbox", func() (*runtimeapi.RemovePodSandboxResponse, error) {
		b := f.boxes[r.PodSandboxId]
		if b == nil {
			return nil, status.Error(codes.NotFound, "no such sandbox")
		}
		if b.Annotations["stopped"] == "" {
			return nil, status.Error(codes.FailedPrecondition, "the sandbox's network is not closed")
		}
		delete(f.boxes, b.Id)
		for id := range f.runs {
			if f.of[id] == b.Id {
				delete(f.runs, id)
			}
		}
		return &runtimeapi.RemovePodSandboxResponse{}, nil
	})
}

func (f *fake) ListPodSandbox(ctx context.Context, r *runtimeapi.ListPodSandboxRequest, _ ...grpc.CallOption) (*runtimeapi.ListPodSandboxResponse, error) {
	return call(ctx, f, "ListPodSandbox", func() (*runtimeapi.ListPodSandboxResponse, error) {
		answer := &runtimeapi.ListPodSandboxResponse{}
		for _, b := range f.boxes {
			if labelled(b.Labels, r.Filter.LabelSelector) {
				answer.Items = append(answer.Items, &runtimeapi.PodSandbox{Id: b.Id, Metadata: b.Metadata, Labels: b.Labels, State: b.State, CreatedAt: b.CreatedAt})
			}
		}
		return answer, nil
	})
}

func labelled(labels, wanted map[string]string) bool {
	for k, v := range wanted {
		if labels[k] != v {
			return false
		}
	}
	return true
}

func (f *fake) PodSandboxStatus(ctx context.Context, r *runtimeapi.PodSandboxStatusRequest, _ ...grpc.CallOption) (*runtimeapi.PodSandboxStatusResponse, error) {
	return call(ctx, f, "PodSandboxStatus", func() (*runtimeapi.PodSandboxStatusResponse, error) {
		if f.boxes[r.PodSandboxId] == nil {
			return nil, status.Error(codes.NotFound, "no such sandbox")
		}
		return &runtimeapi.PodSandboxStatusResponse{Status: &runtimeapi.PodSandboxStatus{Network: &runtimeapi.PodSandboxNetworkStatus{Ip: "10.0.0.1"}}}, nil
	})
}

func (f *fake) ListContainers(ctx context.Context, r *runtimeapi.ListContainersRequest, _ ...grpc.CallOption) (*runtimeapi.ListContainersResponse, error) {
	return call(ctx, f, "ListContainers", func() (*runtimeapi.ListContainersResponse, error) {
		answer := &runtimeapi.ListContainersResponse{}
		for id, s := range f.runs {
			if labelled(s.Labels, r.Filter.LabelSelector) {
				answer.Containers = append(answer.Containers, &runtimeapi.Container{
					Id: id, PodSandboxId: f.of[id], Metadata: s.Metadata, Labels: s.Labels, Annotations: s.Annotations, State: s.State, CreatedAt: s.CreatedAt,
				})
			}
		}
		return answer, nil
	})
}

func (f *fake) ContainerStatus(ctx context.Context, r *runtimeapi.ContainerStatusRequest, _ ...grpc.CallOption) (*runtimeapi.ContainerStatusResponse, error) {
	return call(ctx, f, "ContainerStatus", func() (*runtimeapi.ContainerStatusResponse, error) {
		s := f.runs[r.ContainerId]
		if s == nil {
			return nil, status.Error(codes.NotFound, "no such container")
		}
		return &runtimeapi.ContainerStatusResponse{Status: &runtimeapi.ContainerStatus{
			Id: s.Id, Metadata: s.Metadata, State: s.State, CreatedAt: s.CreatedAt, StartedAt: s.StartedAt, FinishedAt: s.FinishedAt, ExitCode: s.ExitCode,
		}}, nil
	})
}

func (f *fake) CreateContainer(ctx context.Context, r *runtimeapi.CreateContainerRequest, _ ...grpc.CallOption) (*runtimeapi.CreateContainerResponse, error) {
	return call(ctx, f, "CreateContainer", func() (*runtimeapi.CreateContainerResponse, error) {
		if b := f.boxes[r.PodSandboxId]; b == nil || b.State != runtimeapi.PodSandboxState_SANDBOX_READY {
			return nil, status.Error(codes.NotFound, "no such sandbox")
		}
		for id, s := range f.runs {
			if m := r.Config.Metadata; f.of[id] == r.PodSandboxId && s.Metadata.Name == m.Name && s.Metadata.Attempt == m.Attempt {
				return nil, status.Errorf(codes.AlreadyExists, "the name is reserved for %s", id)
			}
		}
		s := &runtimeapi.ContainerStatus{
			Id: f.nameLocked("run"), Metadata: r.Config.Metadata, Labels: r.Config.Labels, Annotations: r.Config.Annotations, CreatedAt: time.Now().UnixNano(),
		}
		f.runs[s.Id], f.of[s.Id] = s, r.PodSandboxId
		return &runtimeapi.CreateContainerResponse{ContainerId: s.Id}, nil
	})
}

// StartContainer starts a container. One called "first" exits at once.
func (f *fake) StartContainer(ctx context.Context, r *runtimeapi.StartContainerRequest, _ ...grpc.CallOption) (*runtimeapi.StartContainerResponse, error) {
	return call(ctx, f, "StartContainer", func() (*runtimeapi.StartContainerResponse, error) {
		s := f.runs[r.ContainerId]
		if s == nil {
			return nil, status.Error(codes.NotFound, "no such container")
		}
		s.State, s.StartedAt = runtimeapi.ContainerState_CONTAINER_RUNNING, time.Now().UnixNano()
		if s.Metadata.Name == "first" {
			endRun(s, 0)
		}
		return &runtimeapi.StartContainerResponse{}, nil
	})
}

func endRun(s *runtimeapi.ContainerStatus, code int32) {
	if s.State != runtimeapi.ContainerState_CONTAINER_EXITED {
		s.State, s.FinishedAt, s.ExitCode = runtimeapi.ContainerState_CONTAINER_EXITED, time.Now().UnixNano(), code
	}
}

func (f *fake) StopContainer(ctx context.Context, r *runtimeapi.StopContainerRequest, _ ...grpc.CallOption) (*runtimeapi.StopContainerResponse, error) {
	return call(ctx, f, "StopContainer", func() (*runtimeapi.StopContainerResponse, error) {
		if r.Timeout < 0 {
			f.t.Errorf("a container is given %d seconds to end", r.Timeout)
		}
		s := f.runs[r.ContainerId]
		if s == nil {
			return nil, status.Error(codes.NotFound, "no such container")
		}
		endRun(s, 0)
		return &runtimeapi.StopContainerResponse{}, nil
	})
}

func (f *fake) RemoveContainer(ctx context.Context, r *runtimeapi.RemoveContainerRequest, _ ...grpc.CallOption) (*runtimeapi.RemoveContainerResponse, error) {
	return call(ctx, f, "RemoveContainer", func() (*runtimeapi.RemoveContainerResponse, error) {
		delete(f.runs, r.ContainerId)
		return &runtimeapi.RemoveContainerResponse{}, nil
	})
}

func (f *fake) ExecSync(ctx context.Context, _ *runtimeapi.ExecSyncRequest, _ ...grpc.CallOption) (*runtimeapi.ExecSyncResponse, error) {
	return call(ctx, f, "ExecSync", func() (*runtimeapi.ExecSyncResponse, error) { return &runtimeapi.ExecSyncResponse{}, nil })
}

func (f *fake) ImageStatus(ctx context.Context, r *runtimeapi.ImageStatusRequest, _ ...grpc.CallOption) (*runtimeapi.ImageStatusResponse, error) {
	return call(ctx, f, "ImageStatus", func() (*runtimeapi.ImageStatusResponse, error) {
		if !f.images[r.Image.Image] {
			return &runtimeapi.ImageStatusResponse{}, nil
		}
		return &runtimeapi.ImageStatusResponse{Image: &runtimeapi.Image{Id: r.Image.Image}}, nil
	})
}

func (f *fake) PullImage(ctx context.Context, r *runtimeapi.PullImageRequest, _ ...grpc.CallOption) (*runtimeapi.PullImageResponse, error) {
	return call(ctx, f, "PullImage", func() (*runtimeapi.PullImageResponse, error) {
		f.images[r.Image.Image] = true
		return &runtimeapi.PullImageResponse{ImageRef: r.Image.Image}, nil
	})
}
