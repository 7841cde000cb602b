package cri

import (
	"context"
	"errors"
	"slices"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/millrace/millrace/internal/kubelet/container"
)

// divided is a runtime with user namespaces for pods of the handler "" and none for those of "plain". It keeps what it
// is asked for.
type divided struct {
	*fake
	silent bool // it does not say that it has user namespaces
	box    *runtimeapi.RunPodSandboxRequest
	made   *runtimeapi.CreateContainerRequest
	has    *runtimeapi.UserNamespace // of the sandbox
}

func (d *divided) Status(ctx context.Context, r *runtimeapi.StatusRequest, o ...grpc.CallOption) (*runtimeapi.StatusResponse, error) {
	s, err := d.fake.Status(ctx, r, o...)
	if err == nil && !d.silent {
		s.RuntimeHandlers = []*runtimeapi.RuntimeHandler{{Features: &runtimeapi.RuntimeHandlerFeatures{UserNamespaces: true}}, {Name: "plain"}}
	}
	return s, err
}

func (d *divided) RunPodSandbox(_ context.Context, r *runtimeapi.RunPodSandboxRequest, _ ...grpc.CallOption) (*runtimeapi.RunPodSandboxResponse, error) {
	d.box, d.has = r, r.Config.Linux.SecurityContext.NamespaceOptions.UsernsOptions
	return &runtimeapi.RunPodSandboxResponse{PodSandboxId: "box"}, nil
}

func (d *divided) PodSandboxStatus(context.Context, *runtimeapi.PodSandboxStatusRequest, ...grpc.CallOption) (*runtimeapi.PodSandboxStatusResponse, error) {
	return &runtimeapi.PodSandboxStatusResponse{Status: &runtimeapi.PodSandboxStatus{Linux: &runtimeapi.LinuxPodSandboxStatus{
		Namespaces: &runtimeapi.Namespace{Options: &runtimeapi.NamespaceOption{UsernsOptions: d.has}},
	}}}, nil
}

func (d *divided) CreateContainer(_ context.Context, r *runtimeapi.CreateContainerRequest, _ ...grpc.CallOption) (*runtimeapi.CreateContainerResponse, error) {
	d.made = r
	return &runtimeapi.CreateContainerResponse{ContainerId: "c"}, nil
}

func newDivided(t *testing.T) (*divided, *Runtime) {
	d := &divided{fake: newFake(t, fault{})}
	r := d.open()
	r.runtime = d
	return d, r
}

// ownUsers returns a pod with a user namespace, whose container sees all of /proc.
func ownUsers() (*container.SandboxSpec, *container.Spec) {
	unmasked := corev1.UnmaskedProcMount
	pod := &corev1.Pod{Spec: corev1.PodSpec{HostUsers: new(false), Containers: []corev1.Container{
		{Name: "c", SecurityContext: &corev1.SecurityContext{ProcMount: &unmasked}},
	}}}
	box := &container.SandboxSpec{Pod: pod, Users: &container.IDs{First: 3 << 16, Length: 1 << 16}}
	return box, &container.Spec{Pod: pod, Container: &pod.Spec.Containers[0], Sandbox: box, Mounts: []container.Mount{{Container: "/data", Host: "/host"}, {Container: "/i", Image: "i"}}}
}

func TestAPodWithUsersOfItsOwnNeverRunsAsUsersOfTheMachine(t *testing.T) {
	for name, change := range map[string]func(*divided, *container.SandboxSpec){
		"without users":                    func(_ *divided, s *container.SandboxSpec) { s.Users = nil },
		"with the machine's root":          func(_ *divided, s *container.SandboxSpec) { s.Users.First = 0 },
		"in a runtime that says nothing":   func(d *divided, _ *container.SandboxSpec) { d.silent = true },
		"with a handler that has none":     func(_ *divided, s *container.SandboxSpec) { s.Handler = "plain" },
		"with a handler that is missing":   func(_ *divided, s *container.SandboxSpec) { s.Handler = "missing" },
		"with the machine's processes":     func(_ *divided, s *container.SandboxSpec) { s.Pod.Spec.HostPID = true },
		"with the machine's network":       func(_ *divided, s *container.SandboxSpec) { s.Pod.Spec.HostNetwork = true },
		"with the machine's shared memory": func(_ *divided, s *container.SandboxSpec) { s.Pod.Spec.HostIPC = true },
	} {
		t.Run(name, func(t *testing.T) {
			d, r := newDivided(t)
			box, spec := ownUsers()
			change(d, box)
			_, err := r.RunSandbox(t.Context(), box)
			if _, ok := errors.AsType[*container.NoUserNamespaces](err); !ok || d.box != nil {
				t.Errorf("a sandbox was asked for: %v, %v", d.box, err)
			}
			if _, err = r.Create(t.Context(), "box", spec); err == nil || d.made != nil {
				t.Errorf("a container was asked for: %v, %v", d.made, err)
			}
		})
	}
}

func TestAContainerJoinsNoSandboxThatWasMadeForOtherUsers(t *testing.T) {
	for name, has := range map[string]*runtimeapi.UserNamespace{"the machine's": nil, "another pod's": {Mode: runtimeapi.NamespaceMode_POD}} {
		d, r := newDivided(t)
		_, spec := ownUsers()
		d.has = has
		if _, err := r.Create(t.Context(), "box", spec); err == nil || d.made != nil {
			t.Errorf("in a sandbox with %s users: %v", name, err)
		}
	}
}

func TestSandboxContainersAndMountsOfAPodHaveItsUsers(t *testing.T) {
	d, r := newDivided(t)
	box, spec := ownUsers()
	if _, err := r.RunSandbox(t.Context(), box); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Create(t.Context(), "box", spec); err != nil {
		t.Fatal(err)
	}
	all := []*runtimeapi.IDMapping{{HostId: 3 << 16, Length: 1 << 16}}
	want := &runtimeapi.UserNamespace{Mode: runtimeapi.NamespaceMode_POD, Uids: all, Gids: all}
	security := d.made.Config.Linux.SecurityContext
	for _, got := range []*runtimeapi.UserNamespace{
		d.box.Config.Linux.SecurityContext.NamespaceOptions.UsernsOptions, security.NamespaceOptions.UsernsOptions,
		d.made.SandboxConfig.Linux.SecurityContext.NamespaceOptions.UsernsOptions,
	} {
		if !proto.Equal(got, want) {
			t.Errorf("the user namespace is %v", got)
		}
	}
	directory, image := d.made.Config.Mounts[0], d.made.Config.Mounts[1]
	if len(directory.UidMappings) != 1 || !proto.Equal(directory.UidMappings[0], all[0]) || !proto.Equal(directory.GidMappings[0], all[0]) {
		t.Errorf("the directory's users are %v, %v", directory.UidMappings, directory.GidMappings)
	}
	if image.UidMappings != nil {
		t.Errorf("the image's users are %v", image.UidMappings)
	}
	if len(security.MaskedPaths)+len(security.ReadonlyPaths) > 0 {
		t.Error("/proc is masked, which the pod does not want")
	}
}

func TestAllOfProcIsSeenOnlyInAUserNamespace(t *testing.T) {
	d, r := newDivided(t)
	box, spec := ownUsers()
	box.Pod.Spec.HostUsers = nil
	if _, err := r.Create(t.Context(), "box", spec); err != nil {
		t.Fatal(err)
	}
	if s := d.made.Config.Linux.SecurityContext; len(s.MaskedPaths) == 0 || len(s.ReadonlyPaths) == 0 {
		t.Errorf("of /proc, %v are masked and %v are read-only", s.MaskedPaths, s.ReadonlyPaths)
	}
}

func TestASandboxIsMadeByTheHandlerOfItsRuntimeClass(t *testing.T) {
	d, r := newDivided(t)
	if _, err := r.RunSandbox(t.Context(), &container.SandboxSpec{Pod: &corev1.Pod{}, Handler: "plain"}); err != nil || d.box.RuntimeHandler != "plain" {
		t.Errorf("the handler is %q, %v", d.box.GetRuntimeHandler(), err)
	}
}

func TestTheNodeShowsWhatTheRuntimeAndTheKernelCan(t *testing.T) {
	s := &runtimeapi.StatusResponse{RuntimeHandlers: []*runtimeapi.RuntimeHandler{
		{Name: "runc", Features: &runtimeapi.RuntimeHandlerFeatures{UserNamespaces: true, RecursiveReadOnlyMounts: true}}, {Name: "old"}, {},
	}}
	all := handlers(s)
	var names []string
	for _, h := range all {
		names = append(names, h.Name)
	}
	if !slices.Equal(names, []string{"", "old", "runc"}) {
		t.Fatalf("the handlers are %q", names)
	}
	if f := all[2].Features; !*f.RecursiveReadOnlyMounts || *f.UserNamespaces != kernelHasUsers() {
		t.Errorf("the features of a handler that has them: %v", f)
	}
	if f := all[1].Features; *f.RecursiveReadOnlyMounts || *f.UserNamespaces {
		t.Errorf("the features of a handler that says nothing: %v", f)
	}
}
