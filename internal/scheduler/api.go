package scheduler

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/millrace/millrace/internal/scheduler/plugin"
)

// API has the requests that the scheduler sends to an API server, besides watches.
type API interface {
	// Bind binds a pod to a node.
	Bind(ctx context.Context, pod *plugin.Pod, node string) error
	// Read returns the pod's current state.
	Read(ctx context.Context, key types.NamespacedName) (*corev1.Pod, error)
	// Report writes into the pod's status. It fails with a conflict if the pod has changed since the given version,
	// because the status might be outdated.
	Report(ctx context.Context, pod *plugin.Pod, status Status) error
	// Preempt adds a condition to the status of a victim, and deletes the pod.
	Preempt(ctx context.Context, victim *plugin.Pod, condition corev1.PodCondition) error
}

// Status is what the scheduler writes into the status of a pod without a node.
type Status struct {
	Condition     *corev1.PodCondition // nil: unchanged
	NominatedNode *string              // nil: unchanged
}

// Server returns the API of a client.
func Server(client typedcorev1.CoreV1Interface) API {
	return server{client, directly(client.RESTClient())}
}

type server struct {
	client typedcorev1.PodsGetter
	direct *direct // nil: all requests use client
}

// Bind sends the pod's UID, so that it never binds another pod with the same name.
func (s server) Bind(ctx context.Context, pod *plugin.Pod, node string) error {
	binding := &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Namespace: pod.Key.Namespace, Name: pod.Key.Name, UID: pod.UID},
		Target:     corev1.ObjectReference{Kind: "Node", Name: node},
	}
	if s.direct != nil {
		if done, err := s.direct.bind(ctx, binding); done || err != nil {
			return err
		}
	}
	return s.client.Pods(pod.Key.Namespace).Bind(ctx, binding, metav1.CreateOptions{})
}

func (s server) Read(ctx context.Context, key types.NamespacedName) (*corev1.Pod, error) {
	return s.client.Pods(key.Namespace).Get(ctx, key.Name, metav1.GetOptions{})
}

// Report sends a patch. It does not change the other conditions, and changes the transition time only if the condition
// sets it.
func (s server) Report(ctx context.Context, pod *plugin.Pod, status Status) error {
	fields := map[string]any{}
	if status.Condition != nil {
		fields["conditions"] = []any{conditionFields(status.Condition)}
	}
	if n := status.NominatedNode; n != nil {
		fields["nominatedNodeName"] = nil
		if *n != "" {
			fields["nominatedNodeName"] = *n
		}
	}
	return s.patchStatus(ctx, pod, pod.ResourceVersion, fields)
}

func conditionFields(condition *corev1.PodCondition) map[string]any {
	fields := map[string]any{
		"type": condition.Type, "status": condition.Status,
		"reason": condition.Reason, "message": condition.Message,
		"observedGeneration": condition.ObservedGeneration,
	}
	if !condition.LastTransitionTime.IsZero() {
		fields["lastProbeTime"] = nil
		fields["lastTransitionTime"] = condition.LastTransitionTime
	}
	return fields
}

// patchStatus writes fields of a pod's status, if the UID and, unless version is empty, the resource version are still
// the same.
func (s server) patchStatus(ctx context.Context, pod *plugin.Pod, version string, fields map[string]any) error {
	meta := map[string]any{"uid": pod.UID}
	if version != "" {
		meta["resourceVersion"] = version
	}
	patch, err := json.Marshal(map[string]any{"metadata": meta, "status": fields})
	if err != nil {
		return fmt.Errorf("encode a pod's status: %w", err)
	}
	if s.direct != nil {
		if done, err := s.direct.patchStatus(ctx, pod.Key, patch); done || err != nil {
			return err
		}
	}
	_, err = s.client.Pods(pod.Key.Namespace).Patch(ctx, pod.Key.Name, types.StrategicMergePatchType, patch,
		metav1.PatchOptions{}, "status")
	return err
}

func (s server) Preempt(ctx context.Context, victim *plugin.Pod, condition corev1.PodCondition) error {
	condition.LastTransitionTime = metav1.Now()
	fields := map[string]any{"conditions": []any{conditionFields(&condition)}}
	if err := s.patchStatus(ctx, victim, "", fields); err != nil {
		return err
	}
	options := metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(victim.UID))}
	if s.direct != nil {
		options.Kind, options.APIVersion = "DeleteOptions", "v1"
		if done, err := s.direct.remove(ctx, victim.Key, &options); done || err != nil {
			return err
		}
	}
	return s.client.Pods(victim.Key.Namespace).Delete(ctx, victim.Key.Name, options)
}
