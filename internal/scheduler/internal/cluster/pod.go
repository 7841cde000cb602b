package cluster

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/millrace/millrace/internal/demand"
)

// Key is the namespace and name of a pod.
type Key = types.NamespacedName

// Pod has the properties of a pod that the scheduler needs. It is immutable.
type Pod struct {
	Key             Key
	UID             types.UID
	Generation      int64
	ResourceVersion string
	Shape           *Shape
	Node            string // empty: it has none
	SchedulerName   string
	Priority        int32
	Created         time.Time
	Gates           []string
	Terminating     bool
	Finished        bool // it has ended and uses no resources

	// The API's reason why it has no node.
	Reason, Message string

	// NominatedNode is the nominated node in the API.
	NominatedNode string
	NeverPreempts bool
	// Started is when the kubelet has accepted it; zero before.
	Started time.Time
	// Preempted reports that it terminates because a scheduler has preempted it.
	Preempted bool

	// Volumes are the volumes that restrict where the pod can be placed.
	Volumes []Volume
	// Claims are the pod's resource claims.
	Claims []PodClaim
	// Extended are the extended resources that its containers ask for.
	Extended []ExtendedRequest
}

// Pod converts a pod of the API.
func (in *Interner) Pod(pod *corev1.Pod) *Pod {
	p := &Pod{
		Key:             Key{Namespace: pod.Namespace, Name: pod.Name},
		UID:             pod.UID,
		Generation:      pod.Generation,
		ResourceVersion: pod.ResourceVersion,
		Shape:           in.Shape(pod),
		Node:            pod.Spec.NodeName,
		SchedulerName:   pod.Spec.SchedulerName,
		Created:         pod.CreationTimestamp.Time,
		Terminating:     pod.DeletionTimestamp != nil,
		Finished:        demand.Finished(pod.Status.Phase),
	}
	if p.SchedulerName == "" {
		p.SchedulerName = corev1.DefaultSchedulerName
	}
	if pod.Spec.Priority != nil {
		p.Priority = *pod.Spec.Priority
	}
	p.NominatedNode = pod.Status.NominatedNodeName
	p.NeverPreempts = pod.Spec.PreemptionPolicy != nil && *pod.Spec.PreemptionPolicy == corev1.PreemptNever
	if pod.Status.StartTime != nil {
		p.Started = pod.Status.StartTime.Time
	}
	p.Volumes, p.Claims = volumesOf(pod), claimsOf(pod)
	if len(p.Shape.Requests.Extended) > 0 {
		p.Extended = extendedOf(&pod.Spec)
	}
	for _, gate := range pod.Spec.SchedulingGates {
		p.Gates = append(p.Gates, gate.Name)
	}
	for i := range pod.Status.Conditions {
		c := &pod.Status.Conditions[i]
		switch {
		case c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse:
			p.Reason, p.Message = c.Reason, c.Message
		case c.Type == corev1.DisruptionTarget && c.Status == corev1.ConditionTrue:
			p.Preempted = c.Reason == corev1.PodReasonPreemptionByScheduler
		}
	}
	return p
}
