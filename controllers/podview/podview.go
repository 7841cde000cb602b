// Package podview is the small picture of a pod that the control loops share.
//
// A pod as the API serves it has some kilobytes, most of which no loop reads. One
// informer keeps this projection of every pod, some hundred bytes each, and all
// loops read from it; so 30,000 pods cost a few megabytes and reading 5,000 of
// them in one pass costs no decoding.
//
// What is guaranteed: a *Pod is never changed after [Of] made it, and it is a
// [metav1.Object] whose names, uid, version, labels, owners, finalizers and
// timestamps are the pod's own. What a caller may not assume: that annotations
// are complete (only those named in kept are), or that it can be written back.
package podview

import (
	"iter"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/millrace/millrace/demand"
	"github.com/millrace/millrace/informer"
)

// A Pod is what the loops know of a pod.
type Pod struct {
	metav1.ObjectMeta

	Node string
	// Wanted is the one node that the pod's affinity names, if it names one.
	Wanted        string
	Phase         corev1.PodPhase
	RestartPolicy corev1.RestartPolicy
	Hostname      string
	Subdomain     string
	HostNetwork   bool
	IPs           []string
	Ports         []Port
	Tolerations   []corev1.Toleration
	// Claims are the persistent volume claims that the pod uses, those of its ephemeral volumes among them.
	Claims []string
	// Ephemeral says that some of the claims are made for the pod alone.
	Ephemeral bool

	// Ready is the state of the Ready condition, ReadyChanged when it became so.
	Ready        bool
	ReadyChanged metav1.Time
	// Reasons are the conditions beyond the usual four, such as DisruptionTarget.
	Reasons []corev1.PodCondition
	// Exits are the containers that ended and will not come back by themselves.
	Exits []Exit
	// MostRestarts is that of the container that restarted most, AllRestarts the
	// sum over init and plain containers.
	MostRestarts, AllRestarts int32
}

// A Port is a port that a container declares.
type Port struct {
	Name     string
	Number   int32
	Protocol corev1.Protocol
	// Init is set for the ports of restartable init containers.
	Init bool
}

// An Exit is the end of a container.
type Exit struct {
	Container string
	Code      int32
	Finished  metav1.Time
}

// byNode finds pods by the node that they are bound to.
var byNode = informer.NewIndex(nodeOf)

// OnNode ranges over the pods that are bound to a node.
func OnNode(pods *informer.Shared[*Pod], node string) iter.Seq[*Pod] { return pods.By(byNode, node) }

func nodeOf(p *Pod) []string {
	if p.Node == "" {
		return nil
	}
	return []string{p.Node}
}

// ControllerUID is the uid of the pod's controller, or nothing.
func (p *Pod) ControllerUID() types.UID {
	if ref := metav1.GetControllerOfNoCopy(p); ref != nil {
		return ref.UID
	}
	return ""
}

// Finished says that the pod's containers have ended for good.
func (p *Pod) Finished() bool {
	return p.Phase == corev1.PodSucceeded || p.Phase == corev1.PodFailed
}

// Terminating says that the pod is being deleted and has not ended yet.
func (p *Pod) Terminating() bool { return p.DeletionTimestamp != nil && !p.Finished() }

// Active says that the pod works, or is on its way to, and nobody deletes it.
func (p *Pod) Active() bool { return p.DeletionTimestamp == nil && !p.Finished() }

// Available says that the pod has been ready for at least the given time.
func (p *Pod) Available(minReady time.Duration, now time.Time) bool {
	return p.Ready && (minReady == 0 || !p.ReadyChanged.IsZero() && !p.ReadyChanged.Add(minReady).After(now))
}

// Condition is the state of a condition beyond the usual four.
func (p *Pod) Condition(kind corev1.PodConditionType) (corev1.PodCondition, bool) {
	for _, c := range p.Reasons {
		if c.Type == kind {
			return c, true
		}
	}
	return corev1.PodCondition{}, false
}

// Of makes the picture of a pod. It shares strings and nothing else that is
// mutable with it.
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

// wanted is the node that an affinity requires by name.
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

// kept are the annotations that a loop reads.
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
