package cri

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/millrace/millrace/internal/kubelet/container"
)

// Create makes a container.
func (r *Runtime) Create(ctx context.Context, sandbox string, spec *container.Spec) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, r.RequestTime)
	defer cancel()
	users, err := r.usersIn(ctx, sandbox, spec.Sandbox)
	if err != nil {
		return "", err
	}
	log := ""
	if spec.Sandbox.LogDirectory != "" {
		log = filepath.Join(spec.Sandbox.LogDirectory, spec.LogPath)
		if err := os.MkdirAll(filepath.Dir(log), 0o755); err != nil {
			return "", fmt.Errorf("make the directory for logs: %w", err)
		}
	}
	answer, err := r.runtime.CreateContainer(ctx, &runtimeapi.CreateContainerRequest{
		PodSandboxId: sandbox, Config: r.config(spec, log, users), SandboxConfig: r.sandboxConfig(spec.Sandbox, users),
	})
	if err != nil {
		return "", err
	}
	return r.identity(ctx, answer.ContainerId), nil
}

func (r *Runtime) config(spec *container.Spec, log string, users *runtimeapi.UserNamespace) *runtimeapi.ContainerConfig {
	c := spec.Container
	config := &runtimeapi.ContainerConfig{
		Metadata:    &runtimeapi.ContainerMetadata{Name: c.Name, Attempt: uint32(spec.Attempt)},
		Image:       &runtimeapi.ImageSpec{Image: spec.ImageRef, UserSpecifiedImage: c.Image},
		Command:     spec.Command,
		Args:        spec.Args,
		WorkingDir:  c.WorkingDir,
		Labels:      containerLabels(spec),
		Annotations: containerAnnotations(spec, log),
		Stdin:       c.Stdin, StdinOnce: c.StdinOnce, Tty: c.TTY,
		Linux: &runtimeapi.LinuxContainerConfig{Resources: r.resources(spec.Pod, c), SecurityContext: r.security(spec.Pod, c, users)},
	}
	if n := config.Linux.SecurityContext.NamespaceOptions; spec.Target != "" && n.Pid == runtimeapi.NamespaceMode_CONTAINER {
		n.Pid, n.TargetId = runtimeapi.NamespaceMode_TARGET, plain(spec.Target)
	}
	if spec.Sandbox.LogDirectory != "" {
		config.LogPath = spec.LogPath
	}
	for _, v := range spec.Env {
		config.Envs = append(config.Envs, &runtimeapi.KeyValue{Key: v.Name, Value: []byte(v.Value)})
	}
	for _, m := range spec.Mounts {
		mount := &runtimeapi.Mount{
			ContainerPath: m.Container, HostPath: m.Host, Readonly: m.ReadOnly, Propagation: propagation(m.Propagation), RecursiveReadOnly: m.RecursiveRO,
		}
		if m.Image != "" {
			mount.Image, mount.ImageSubPath = &runtimeapi.ImageSpec{Image: m.Image}, m.ImagePath
		} else { // what belongs to user n of the machine belongs to user n of the pod; an image has its own mappings
			mount.UidMappings, mount.GidMappings = users.GetUids(), users.GetGids()
		}
		config.Mounts = append(config.Mounts, mount)
	}
	for _, name := range spec.Devices {
		config.CDIDevices = append(config.CDIDevices, &runtimeapi.CDIDevice{Name: name})
	}
	for _, n := range spec.Nodes {
		config.Devices = append(config.Devices, &runtimeapi.Device{ContainerPath: n.Container, HostPath: n.Host, Permissions: n.Permissions})
	}
	for _, b := range spec.Blocks {
		permissions := "mrw"
		if b.ReadOnly {
			permissions = "r"
		}
		config.Devices = append(config.Devices, &runtimeapi.Device{ContainerPath: b.Container, HostPath: b.Host, Permissions: permissions})
	}
	return config
}

func propagation(mode corev1.MountPropagationMode) runtimeapi.MountPropagation {
	switch mode {
	case corev1.MountPropagationHostToContainer:
		return runtimeapi.MountPropagation_PROPAGATION_HOST_TO_CONTAINER
	case corev1.MountPropagationBidirectional:
		return runtimeapi.MountPropagation_PROPAGATION_BIDIRECTIONAL
	}
	return runtimeapi.MountPropagation_PROPAGATION_PRIVATE
}

// startGrace is how long a start may go on after its pod was deleted. One that is left halfway looks like one that
// failed.
const startGrace = 10 * time.Second

// Start starts a container.
func (r *Runtime) Start(ctx context.Context, id string) error {
	ctx, end := outlive(ctx, startGrace)
	defer end()
	ctx, cancel := context.WithTimeout(ctx, r.RequestTime)
	defer cancel()
	_, err := r.runtime.StartContainer(ctx, &runtimeapi.StartContainerRequest{ContainerId: plain(id)})
	return err
}

// outlive returns a context that ends a while after ctx does. Call end when it is no longer needed.
func outlive(ctx context.Context, by time.Duration) (longer context.Context, end func()) {
	longer, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		select {
		case <-time.After(by):
			cancel()
		case <-longer.Done():
		}
	})
	return longer, func() { stop(); cancel() }
}

// Stop sends a container its stop signal, and kills it when its grace period is over.
func (r *Runtime) Stop(ctx context.Context, id string, grace time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, grace+stopTime)
	defer cancel()
	seconds := int64((grace + time.Second - 1) / time.Second)
	_, err := r.runtime.StopContainer(ctx, &runtimeapi.StopContainerRequest{ContainerId: plain(id), Timeout: seconds})
	return ignoreMissing(err)
}

// Resize changes the resource limits of a running container. A memory limit below the current usage is refused, because
// the container would be killed.
func (r *Runtime) Resize(ctx context.Context, id string, pod *corev1.Pod, c *corev1.Container) error {
	ctx, cancel := context.WithTimeout(ctx, r.RequestTime)
	defer cancel()
	wanted := r.resources(pod, c)
	if limit := wanted.MemoryLimitInBytes; limit > 0 {
		answer, err := r.runtime.ContainerStats(ctx, &runtimeapi.ContainerStatsRequest{ContainerId: plain(id)})
		if err != nil {
			return fmt.Errorf("read the container's memory usage: %w", err)
		}
		if used := answer.GetStats().GetMemory().GetWorkingSetBytes().GetValue(); used > uint64(limit) {
			return fmt.Errorf("attempting to set memory limit (%d) below current usage (%d)", limit, used)
		}
	}
	_, err := r.runtime.UpdateContainerResources(ctx, &runtimeapi.UpdateContainerResourcesRequest{ContainerId: plain(id), Linux: wanted})
	return err
}

// Remove removes a container and its log.
func (r *Runtime) Remove(ctx context.Context, id string) error {
	ctx, cancel := context.WithTimeout(ctx, r.RequestTime)
	defer cancel()
	answer, err := r.runtime.ContainerStatus(ctx, &runtimeapi.ContainerStatusRequest{ContainerId: plain(id)})
	if err == nil {
		removeLog(answer.GetStatus().GetAnnotations()[annotationLog])
	}
	_, err = r.runtime.RemoveContainer(ctx, &runtimeapi.RemoveContainerRequest{ContainerId: plain(id)})
	return ignoreMissing(err)
}

// removeLog removes a log file, its rotated files, and the directories that are empty then.
func removeLog(path string) {
	if path == "" {
		return
	}
	parts, _ := filepath.Glob(path + "*")
	for _, part := range parts {
		os.Remove(part)
	}
	os.Remove(filepath.Dir(path))
	os.Remove(filepath.Dir(filepath.Dir(path)))
}

// Exec runs a command in a container. The runtime ends a command at its timeout and reports that. If the runtime does
// not answer at all, another error is returned, because the command is not at fault.
func (r *Runtime) Exec(ctx context.Context, id string, command []string) (container.Output, error) {
	request := &runtimeapi.ExecSyncRequest{ContainerId: plain(id), Cmd: command}
	call := ctx
	if deadline, ok := ctx.Deadline(); ok {
		request.Timeout = max(int64((time.Until(deadline)+time.Second/2)/time.Second), 1)
		var cancel context.CancelFunc
		call, cancel = context.WithDeadline(context.WithoutCancel(ctx), deadline.Add(silentTime))
		defer cancel()
		defer context.AfterFunc(ctx, func() {
			if errors.Is(ctx.Err(), context.Canceled) {
				cancel()
			}
		})()
	}
	answer, err := r.runtime.ExecSync(call, request)
	switch {
	case status.Code(err) == codes.DeadlineExceeded && call.Err() == nil:
		return container.Output{}, fmt.Errorf("%w: %w", context.DeadlineExceeded, err)
	case err != nil:
		return container.Output{}, err
	}
	return container.Output{Stdout: answer.Stdout, Stderr: answer.Stderr, ExitCode: answer.ExitCode}, nil
}

// ReopenLog makes the runtime open a new log file after the old one was renamed.
func (r *Runtime) ReopenLog(ctx context.Context, id string) error {
	ctx, cancel := context.WithTimeout(ctx, r.RequestTime)
	defer cancel()
	_, err := r.runtime.ReopenContainerLog(ctx, &runtimeapi.ReopenContainerLogRequest{ContainerId: plain(id)})
	return err
}
