package cri

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/millrace/millrace/internal/demand"
	"github.com/millrace/millrace/internal/kubelet/container"
)

// Pods returns all pods, without what needs a status request for each container, such as exit codes.
func (r *Runtime) Pods(ctx context.Context) ([]container.Pod, error) {
	boxes, runs, err := r.list(ctx, map[string]string{labelOwner: "true"})
	if err != nil {
		return nil, err
	}
	pods := map[types.UID]*container.Pod{}
	of := func(labels map[string]string) *container.Pod {
		uid := types.UID(labels[labelUID])
		if pods[uid] == nil {
			pods[uid] = &container.Pod{UID: uid, Namespace: labels[labelNamespace], Name: labels[labelPod]}
		}
		return pods[uid]
	}
	for _, b := range boxes {
		p := of(b.Labels)
		p.Sandboxes = append(p.Sandboxes, sandboxOf(b))
	}
	for _, c := range runs {
		p := of(c.Labels)
		p.Containers = append(p.Containers, r.runOf(ctx, c))
	}
	all := make([]container.Pod, 0, len(pods))
	for _, p := range pods {
		order(p)
		all = append(all, *p)
	}
	return all, nil
}

// Pod returns one pod completely.
func (r *Runtime) Pod(ctx context.Context, uid types.UID) (container.Pod, error) {
	pod := container.Pod{UID: uid}
	boxes, runs, err := r.list(ctx, map[string]string{labelUID: string(uid), labelOwner: "true"})
	if err != nil {
		return pod, err
	}
	for _, b := range boxes {
		pod.Namespace, pod.Name = b.Labels[labelNamespace], b.Labels[labelPod]
		box := sandboxOf(b)
		if box.Ready {
			if box.IPs, err = r.addresses(ctx, b.Id); missing(err) {
				continue
			}
			if err != nil {
				return pod, err
			}
		}
		pod.Sandboxes = append(pod.Sandboxes, box)
	}
	for _, c := range runs {
		run := r.runOf(ctx, c)
		if err := r.complete(ctx, c.Id, &run); missing(err) {
			continue
		} else if err != nil {
			return pod, err
		}
		pod.Containers = append(pod.Containers, run)
	}
	order(&pod)
	return pod, nil
}

func (r *Runtime) list(ctx context.Context, labels map[string]string) ([]*runtimeapi.PodSandbox, []*runtimeapi.Container, error) {
	ctx, cancel := context.WithTimeout(ctx, r.RequestTime)
	defer cancel()
	boxes, err := r.runtime.ListPodSandbox(ctx, &runtimeapi.ListPodSandboxRequest{Filter: &runtimeapi.PodSandboxFilter{LabelSelector: labels}})
	if err != nil {
		return nil, nil, fmt.Errorf("list sandboxes: %w", err)
	}
	runs, err := r.runtime.ListContainers(ctx, &runtimeapi.ListContainersRequest{Filter: &runtimeapi.ContainerFilter{LabelSelector: labels}})
	if err != nil {
		return nil, nil, fmt.Errorf("list containers: %w", err)
	}
	return boxes.Items, runs.Containers, nil
}

// order puts the newest first. It compares attempt numbers, because the clock may be changed.
func order(p *container.Pod) {
	slices.SortFunc(p.Sandboxes, func(a, b container.Sandbox) int {
		return cmp.Or(cmp.Compare(b.Attempt, a.Attempt), b.CreatedAt.Compare(a.CreatedAt))
	})
	slices.SortFunc(p.Containers, func(a, b container.Container) int {
		return cmp.Or(cmp.Compare(b.Attempt, a.Attempt), b.CreatedAt.Compare(a.CreatedAt))
	})
}

func sandboxOf(b *runtimeapi.PodSandbox) container.Sandbox {
	return container.Sandbox{
		ID: b.Id, Attempt: b.GetMetadata().GetAttempt(), Ready: b.State == runtimeapi.PodSandboxState_SANDBOX_READY, CreatedAt: moment(b.CreatedAt),
	}
}

func (r *Runtime) runOf(ctx context.Context, c *runtimeapi.Container) container.Container {
	run := container.Container{
		ID: r.identity(ctx, c.Id), Name: c.Labels[labelContainer], SandboxID: c.PodSandboxId, Attempt: int32(c.GetMetadata().GetAttempt()),
		State: stateOf(c.State), CreatedAt: moment(c.CreatedAt), Image: c.Annotations[annotationImage], ImageRef: c.ImageRef, LogPath: c.Annotations[annotationLog],
	}
	if seconds, err := strconv.ParseInt(c.Annotations[annotationGrace], 10, 64); err == nil {
		run.Grace = demand.Seconds(seconds)
	}
	run.PreStop, run.Ports = hook(c.Annotations)
	if images := c.Annotations[annotationVolumes]; images != "" {
		run.VolumeImages = strings.Split(images, ",")
	}
	run.Hash, _ = strconv.ParseUint(c.Annotations[annotationHash], 16, 64)
	return run
}

// complete adds what only a status request returns.
func (r *Runtime) complete(ctx context.Context, id string, run *container.Container) error {
	ctx, cancel := context.WithTimeout(ctx, r.RequestTime)
	defer cancel()
	answer, err := r.runtime.ContainerStatus(ctx, &runtimeapi.ContainerStatusRequest{ContainerId: id})
	if err != nil {
		return fmt.Errorf("read the status of container %s: %w", id, err)
	}
	s := answer.GetStatus()
	run.State, run.StartedAt, run.FinishedAt = stateOf(s.State), moment(s.StartedAt), moment(s.FinishedAt)
	run.ExitCode, run.Reason, run.Message, run.ImageRef = s.ExitCode, s.Reason, s.Message, s.ImageRef
	if u := s.GetUser().GetLinux(); u != nil {
		run.User = &container.User{UID: u.Uid, GID: u.Gid, Groups: u.SupplementalGroups}
	}
	return nil
}

// addresses returns the addresses of a sandbox, or the node's if it shares the node's network.
func (r *Runtime) addresses(ctx context.Context, id string) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, r.RequestTime)
	defer cancel()
	answer, err := r.runtime.PodSandboxStatus(ctx, &runtimeapi.PodSandboxStatusRequest{PodSandboxId: id})
	if err != nil {
		return nil, fmt.Errorf("read the status of sandbox %s: %w", id, err)
	}
	s := answer.GetStatus()
	if s.GetLinux().GetNamespaces().GetOptions().GetNetwork() == runtimeapi.NamespaceMode_NODE {
		return r.Addresses, nil
	}
	var ips []string
	if ip := s.GetNetwork().GetIp(); ip != "" {
		ips = append(ips, ip)
	}
	for _, more := range s.GetNetwork().GetAdditionalIps() {
		ips = append(ips, more.Ip)
	}
	return ips, nil
}

func stateOf(s runtimeapi.ContainerState) container.State {
	switch s {
	case runtimeapi.ContainerState_CONTAINER_CREATED:
		return container.Created
	case runtimeapi.ContainerState_CONTAINER_RUNNING:
		return container.Running
	case runtimeapi.ContainerState_CONTAINER_EXITED:
		return container.Exited
	}
	return container.Unknown
}

func moment(nanoseconds int64) time.Time {
	if nanoseconds <= 0 {
		return time.Time{}
	}
	return time.Unix(0, nanoseconds)
}
