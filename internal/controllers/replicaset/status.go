package replicaset

import (
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/millrace/millrace/internal/controllers/podview"
)

// census is the result of counting a ReplicaSet's pods.
type census struct {
	active                             []*podview.Pod
	labeled, ready, avail, terminating int32
	// next is when the next pod becomes available.
	next time.Time
}

func count(rs *appsv1.ReplicaSet, pods []*podview.Pod, now time.Time) census {
	var c census
	template := labels.SelectorFromSet(rs.Spec.Template.Labels)
	minReady := time.Duration(rs.Spec.MinReadySeconds) * time.Second
	for _, p := range pods {
		if p.Terminating() {
			c.terminating++
		}
		if !p.Active() {
			continue
		}
		c.active = append(c.active, p)
		if template.Matches(labels.Set(p.Labels)) {
			c.labeled++
		}
		if !p.Ready {
			continue
		}
		c.ready++
		if p.Available(minReady, now) {
			c.avail++
		} else if due := p.ReadyChanged.Add(minReady); c.next.IsZero() || due.Before(c.next) {
			c.next = due
		}
	}
	return c
}

// status computes the status. failure is the error of the last change of the number of pods.
func (r *controller) status(rs *appsv1.ReplicaSet, c census, failure error) appsv1.ReplicaSetStatus {
	terminating := c.terminating
	s := appsv1.ReplicaSetStatus{
		Replicas:             int32(len(c.active)),
		FullyLabeledReplicas: c.labeled,
		ReadyReplicas:        c.ready,
		AvailableReplicas:    c.avail,
		TerminatingReplicas:  &terminating,
		ObservedGeneration:   rs.Generation,
	}
	var old *appsv1.ReplicaSetCondition
	for i := range rs.Status.Conditions {
		if rs.Status.Conditions[i].Type == appsv1.ReplicaSetReplicaFailure {
			old = &rs.Status.Conditions[i]
			continue
		}
		s.Conditions = append(s.Conditions, rs.Status.Conditions[i])
	}
	switch {
	case failure == nil:
	case old != nil:
		s.Conditions = append(s.Conditions, *old)
	default:
		s.Conditions = append(s.Conditions, appsv1.ReplicaSetCondition{
			Type:               appsv1.ReplicaSetReplicaFailure,
			Status:             corev1.ConditionTrue,
			Reason:             failureReason(len(c.active), replicas(rs)),
			Message:            failure.Error(),
			LastTransitionTime: metav1.NewTime(r.now()),
		})
	}
	if r.kind.Status != nil {
		r.kind.Status(&s)
	}
	return s
}

func failureReason(have, want int) string {
	if have < want {
		return "FailedCreate"
	}
	return "FailedDelete"
}

func sameStatus(a, b *appsv1.ReplicaSetStatus) bool {
	return apiequality.Semantic.DeepEqual(a, b)
}

// replicas returns the wanted number of pods.
func replicas(rs *appsv1.ReplicaSet) int {
	if rs.Spec.Replicas == nil {
		return 1
	}
	return int(*rs.Spec.Replicas)
}
