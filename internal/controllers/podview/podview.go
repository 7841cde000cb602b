// Package podview is the part of a pod that the control loops share.
//
// A pod from the API has some kilobytes, most of which no loop reads. One informer keeps this projection of every pod,
// a few hundred bytes each, and all loops read from it. So 30,000 pods need a few megabytes, and reading 5,000 of them
// in one sync needs no decoding.
//
// Guarantees: a *Pod is never changed after [Of] has made it. It is a [metav1.Object] with the pod's own name, UID,
// version, labels, owners, finalizers and timestamps. Its annotations are not complete (only those in kept), and it
// cannot be written back.
package podview

import (
	"iter"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/millrace/millrace/informer"
	"github.com/millrace/millrace/internal/demand"
)

// Pod is the part of a pod that loops read.
type Pod struct {
	metav1.ObjectMeta

	Node string
	// Wanted is the only node that the pod's affinity allows, if there is just one.
	Wanted        string
	Phase         corev1.PodPhase
	RestartPolicy corev1.RestartPolicy
	Hostname      string
	Subdomain     string
	HostNetwork   bool
	IPs           []string
	Ports         []Port
	Tolerations   []corev1.Toleration
	// Claims are the pod's persistent volume claims, including those of ephemeral volumes.
	Claims []string
	// Ephemeral is set if some of the claims are made only for the pod.
	Ephemeral bool
	// Secrets are the secrets that the pod uses.
	Secrets []string
	// Devices are the pod's resource claims.
	Devices []DeviceClaim

	// Ready is the status of the condition Ready, and ReadyChanged its transition time.
	Ready        bool
	ReadyChanged metav1.Time
	// Reasons are the conditions other than the usual four, for example DisruptionTarget.
	Reasons []corev1.PodCondition
	// Exits are the containers that have ended and will not be restarted in place.
	Exits []Exit
	// MostRestarts is the highest restart count of a container. AllRestarts is the sum over init and ordinary
	// containers.
	MostRestarts, AllRestarts int32
}

// Port is a declared container port.
type Port struct {
	Name     string
	Number   int32
	Protocol corev1.Protocol
	// Init is set for ports of sidecars.
	Init bool
}

// Exit is the end of a container.
type Exit struct {
	Container string
	Code      int32
	Finished  metav1.Time
}

// byNode finds pods by their node.
var byNode = informer.NewIndex(nodeOf)

// OnNode ranges over the pods of a node.
func OnNode(pods *informer.Shared[*Pod], node string) iter.Seq[*Pod] { return pods.By(byNode, node) }

func nodeOf(p *Pod) []string {
	if p.Node == "" {
		return nil
	}
	return []string{p.Node}
}

// ControllerUID returns the UID of the pod's controller, or "".
func (p *Pod) ControllerUID() types.UID {
	if ref := metav1.GetControllerOfNoCopy(p); ref != nil {
		return ref.UID
	}
	return ""
}

// Finished reports whether the pod has succeeded or failed.
func (p *Pod) Finished() bool {
	return demand.Finished(p.Phase)
}

// Terminating reports whether the pod is being deleted and has not ended yet.
func (p *Pod) Terminating() bool { return p.DeletionTimestamp != nil && !p.Finished() }

// Active reports whether the pod is neither finished nor being deleted.
func (p *Pod) Active() bool { return p.DeletionTimestamp == nil && !p.Finished() }

// Available reports whether the pod has been ready for at least the given time.
func (p *Pod) Available(minReady time.Duration, now time.Time) bool {
	return p.Ready && (minReady == 0 || !p.ReadyChanged.IsZero() && !p.ReadyChanged.Add(minReady).After(now))
}

// Condition returns a condition other than the usual four.
func (p *Pod) Condition(kind corev1.PodConditionType) (corev1.PodCondition, bool) {
	for _, c := range p.Reasons {
		if c.Type == kind {
			return c, true
		}
	}
	return corev1.PodCondition{}, false
}

// Of makes the view of a pod. It shares strings with the pod, and nothing mutable.
func Of(pod *corev1.Pod) *Pod {
	p := &Pod{
		ObjectMeta:    meta(&pod.ObjectMeta),
		Node:          pod.Spec.NodeName,
		Wanted:        wanted(pod.Spec.Affinity),
		Phase:         pod.Status.Phase,
		RestartPolicy: pod.Spec.RestartPolicy,
		Hostname:      pod.Spec.Hostname,
		Subdomain:     pod.Spec.Subdomain,
		HostNetwork:   pod.Spec.HostNetwork,
		Ports:         ports(&pod.Spec),
		Tolerations:   pod.Spec.Tolerations,
	}
	p.volumes(pod)
	p.Devices, p.Secrets = devices(pod), secrets(pod)
	for _, ip := range pod.Status.PodIPs {
		p.IPs = append(p.IPs, ip.IP)
	}
	if len(p.IPs) == 0 && pod.Status.PodIP != "" {
		p.IPs = []string{pod.Status.PodIP}
	}
	p.conditions(pod.Status.Conditions)
	p.containers(pod.Status.InitContainerStatuses)
	p.containers(pod.Status.ContainerStatuses)
	return p
}

// wanted returns the node that an affinity requires by name.
func wanted(a *corev1.Affinity) string {
	if a == nil || a.NodeAffinity == nil || a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return ""
	}
	for _, term := range a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms {
		for _, field := range term.MatchFields {
			if field.Key == metav1.ObjectNameField && field.Operator == corev1.NodeSelectorOpIn && len(field.Values) == 1 {
				return field.Values[0]
			}
		}
	}
	return ""
}

// kept are the annotations that loops read.
var kept = []string{
	corev1.PodDeletionCost,
	"batch.kubernetes.io/",
	"endpoints.kubernetes.io/",
}

func meta(m *metav1.ObjectMeta) metav1.ObjectMeta {
	out := metav1.ObjectMeta{
		Name: m.Name, Namespace: m.Namespace, UID: m.UID, ResourceVersion: m.ResourceVersion,
		CreationTimestamp: m.CreationTimestamp, DeletionTimestamp: m.DeletionTimestamp,
		DeletionGracePeriodSeconds: m.DeletionGracePeriodSeconds,
		Generation:                 m.Generation,
		Labels:                     m.Labels, Finalizers: m.Finalizers, OwnerReferences: m.OwnerReferences,
	}
	for key, value := range m.Annotations {
		for _, prefix := range kept {
			if strings.HasPrefix(key, prefix) {
				metav1.SetMetaDataAnnotation(&out, key, value)
			}
		}
	}
	return out
}

func ports(spec *corev1.PodSpec) []Port {
	var out []Port
	for i := range spec.InitContainers {
		c := &spec.InitContainers[i]
		if !demand.Sidecar(c) {
			continue
		}
		for _, port := range c.Ports {
			out = append(out, Port{Name: port.Name, Number: port.ContainerPort, Protocol: port.Protocol, Init: true})
		}
	}
	for i := range spec.Containers {
		for _, port := range spec.Containers[i].Ports {
			out = append(out, Port{Name: port.Name, Number: port.ContainerPort, Protocol: port.Protocol})
		}
	}
	return out
}

func (p *Pod) conditions(conditions []corev1.PodCondition) {
	for _, c := range conditions {
		switch c.Type {
		case corev1.PodReady:
			p.Ready, p.ReadyChanged = c.Status == corev1.ConditionTrue, c.LastTransitionTime
		case corev1.PodScheduled, corev1.PodInitialized, corev1.ContainersReady, corev1.PodReadyToStartContainers:
		default:
			p.Reasons = append(p.Reasons, corev1.PodCondition{Type: c.Type, Status: c.Status, Reason: c.Reason})
		}
	}
}

func (p *Pod) containers(statuses []corev1.ContainerStatus) {
	for i := range statuses {
		s := &statuses[i]
		p.MostRestarts = max(p.MostRestarts, s.RestartCount)
		p.AllRestarts += s.RestartCount
		if t := s.State.Terminated; t != nil {
			p.Exits = append(p.Exits, Exit{Container: s.Name, Code: t.ExitCode, Finished: t.FinishedAt})
		}
	}
}
