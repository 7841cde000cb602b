package cri

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/millrace/millrace/internal/kubelet/container"
)

// usersOf returns the user namespace of a pod, nil for the machine's own users. A pod that must have a namespace and
// has no users for it is refused.
func usersOf(spec *container.SandboxSpec) (*runtimeapi.UserNamespace, error) {
	if !container.OwnUsers(spec.Pod) {
		return nil, nil
	}
	if spec.Users == nil || spec.Users.First == 0 || spec.Users.Length == 0 {
		return nil, &container.NoUserNamespaces{Problem: "this node gives it no users"}
	}
	mapping := []*runtimeapi.IDMapping{{HostId: spec.Users.First, Length: spec.Users.Length}}
	return &runtimeapi.UserNamespace{Mode: runtimeapi.NamespaceMode_POD, Uids: mapping, Gids: mapping}, nil
}

// usersIn returns the user namespace for a container of a sandbox, which must be that of the sandbox: the sandbox may
// be from a runtime, or a kubelet, that made it without one.
func (r *Runtime) usersIn(ctx context.Context, sandbox string, spec *container.SandboxSpec) (*runtimeapi.UserNamespace, error) {
	users, err := usersOf(spec)
	if err != nil || users == nil {
		return nil, err
	}
	s, err := r.status(ctx)
	if err != nil {
		return nil, err
	}
	if err := usersProblem(s, spec); err != nil {
		return nil, err
	}
	answer, err := r.runtime.PodSandboxStatus(ctx, &runtimeapi.PodSandboxStatusRequest{PodSandboxId: sandbox})
	if err != nil {
		return nil, fmt.Errorf("read the status of sandbox %s: %w", sandbox, err)
	}
	if has := answer.GetStatus().GetLinux().GetNamespaces().GetOptions().GetUsernsOptions(); !proto.Equal(has, users) {
		return nil, &container.NoUserNamespaces{Problem: "the pod's sandbox was made without it, or with other users"}
	}
	return users, nil
}

// usersProblem returns why a pod cannot have the user namespace that it must have. A runtime that says nothing has
// none: it would ignore the request, and the pod's root would be the machine's.
func usersProblem(s *runtimeapi.StatusResponse, spec *container.SandboxSpec) error {
	if !container.OwnUsers(spec.Pod) {
		return nil
	}
	problem := ""
	switch p := &spec.Pod.Spec; {
	case p.HostPID || p.HostIPC:
		problem = "it shares namespaces of the machine that belong to the machine's users"
	case p.HostNetwork && !s.GetFeatures().GetUserNamespacesHostNetwork():
		problem = "the container runtime has none for pods with the machine's network"
	case !handlerHasUsers(s, spec.Handler):
		problem = fmt.Sprintf("RuntimeClass handler %q does not support user namespaces", spec.Handler)
	case !kernelHasUsers():
		problem = "the kernel allows no user namespaces"
	default:
		return nil
	}
	return &container.NoUserNamespaces{Problem: problem}
}

// handlers are those of a runtime as the node's status shows them: what needs the kernel, too, is there only if the
// kernel has it.
func handlers(s *runtimeapi.StatusResponse) []corev1.NodeRuntimeHandler {
	var all []corev1.NodeRuntimeHandler
	kernel := kernelHasUsers()
	for _, h := range s.GetRuntimeHandlers() {
		all = append(all, corev1.NodeRuntimeHandler{Name: h.GetName(), Features: &corev1.NodeRuntimeHandlerFeatures{
			RecursiveReadOnlyMounts: new(h.GetFeatures().GetRecursiveReadOnlyMounts()),
			UserNamespaces:          new(kernel && h.GetFeatures().GetUserNamespaces()),
		}})
	}
	slices.SortFunc(all, func(a, b corev1.NodeRuntimeHandler) int { return strings.Compare(a.Name, b.Name) })
	return all
}

func handlerHasUsers(s *runtimeapi.StatusResponse, name string) bool {
	for _, h := range s.GetRuntimeHandlers() {
		if h.GetName() == name {
			return h.GetFeatures().GetUserNamespaces()
		}
	}
	return false
}

// mostNamespaces is how many user namespaces the kernel allows. It is missing from a kernel that has none.
const mostNamespaces = "/proc/sys/user/max_user_namespaces"

func kernelHasUsers() bool {
	text, err := os.ReadFile(mostNamespaces)
	return err == nil && strings.TrimSpace(string(text)) != "0"
}
