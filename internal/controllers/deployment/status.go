package deployment

import (
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The reasons of conditions, as in Kubernetes.
const (
	reasonSetCreated   = "NewReplicaSetCreated"
	reasonSetFound     = "FoundNewReplicaSet"
	reasonSetUpdated   = "ReplicaSetUpdated"
	reasonSetAvailable = "NewReplicaSetAvailable"
	reasonSetFailed    = "ReplicaSetCreateError"
	reasonTimedOut     = "ProgressDeadlineExceeded"
	reasonPaused       = "DeploymentPaused"
	reasonResumed      = "DeploymentResumed"
	reasonMinimum      = "MinimumReplicasAvailable"
	reasonNoMinimum    = "MinimumReplicasUnavailable"
)

// counts returns the status without progress: the numbers, and the Available condition.
func (r *rollout) counts() appsv1.DeploymentStatus {
	all := r.all()
	s := appsv1.DeploymentStatus{
		ObservedGeneration:  r.d.Generation,
		Replicas:            number(sum(all, existing)),
		UpdatedReplicas:     number(sum([]*appsv1.ReplicaSet{r.current}, existing)),
		ReadyReplicas:       number(sum(all, ready)),
		AvailableReplicas:   number(sum(all, available)),
		TerminatingReplicas: terminating(all),
		CollisionCount:      r.d.Status.CollisionCount,
		Conditions:          slices.Clone(r.d.Status.Conditions),
	}
	s.UnavailableReplicas = number(sum(all, size) - sum(all, available))
	if int(s.AvailableReplicas) >= replicas(r.d)-bounds(r.d).unavailable {
		setCondition(&s, r.condition(appsv1.DeploymentAvailable, corev1.ConditionTrue, reasonMinimum, "Deployment has minimum availability."))
	} else {
		setCondition(&s, r.condition(appsv1.DeploymentAvailable, corev1.ConditionFalse, reasonNoMinimum, "Deployment does not have minimum availability."))
	}
	return s
}

// terminating is unknown as long as one ReplicaSet does not report it.
func terminating(sets []*appsv1.ReplicaSet) *int32 {
	var n int32
	for _, set := range sets {
		if set.Status.TerminatingReplicas == nil {
			return nil
		}
		n += *set.Status.TerminatingReplicas
	}
	return &n
}

// status returns the complete status, with progress and failures.
func (r *rollout) status() appsv1.DeploymentStatus {
	s := r.counts()
	if !r.hasDeadline() {
		removeCondition(&s, appsv1.DeploymentProgressing)
	} else if !r.finishedBefore(&s) {
		r.progress(&s)
	}
	removeCondition(&s, appsv1.DeploymentReplicaFailure)
	if failure, ok := r.failure(); ok {
		setCondition(&s, failure)
	}
	return s
}

// failure returns the failure of the current ReplicaSet, or else of any other.
func (r *rollout) failure() (appsv1.DeploymentCondition, bool) {
	sets := r.all()
	slices.Reverse(sets) // the current one is last
	for _, set := range sets {
		for _, c := range set.Status.Conditions {
			if c.Type == appsv1.ReplicaSetReplicaFailure {
				out := r.condition(appsv1.DeploymentReplicaFailure, c.Status, c.Reason, c.Message)
				out.LastTransitionTime, out.LastUpdateTime = c.LastTransitionTime, c.LastTransitionTime
				return out, true
			}
		}
	}
	return appsv1.DeploymentCondition{}, false
}

// complete reports whether all pods are of the current template and available, and there are no others.
func complete(d *appsv1.Deployment, s *appsv1.DeploymentStatus) bool {
	want := number(replicas(d))
	return s.UpdatedReplicas == want && s.Replicas == want && s.AvailableReplicas == want && s.ObservedGeneration >= d.Generation
}

func (r *rollout) condition(kind appsv1.DeploymentConditionType, state corev1.ConditionStatus, reason, message string) appsv1.DeploymentCondition {
	now := metav1.NewTime(r.now)
	return appsv1.DeploymentCondition{
		Type: kind, Status: state, Reason: reason, Message: message, LastUpdateTime: now, LastTransitionTime: now,
	}
}

func (r *rollout) subject() string {
	if r.current != nil {
		return fmt.Sprintf("ReplicaSet %q", r.current.Name)
	}
	return fmt.Sprintf("Deployment %q", r.d.Name)
}

func findCondition(s *appsv1.DeploymentStatus, kind appsv1.DeploymentConditionType) *appsv1.DeploymentCondition {
	for i := range s.Conditions {
		if s.Conditions[i].Type == kind {
			return &s.Conditions[i]
		}
	}
	return nil
}

// setCondition keeps a condition that is equal already, and changes its transition time only if its status changes.
func setCondition(s *appsv1.DeploymentStatus, c appsv1.DeploymentCondition) {
	if old := findCondition(s, c.Type); old != nil {
		if old.Status == c.Status && old.Reason == c.Reason {
			return
		}
		if old.Status == c.Status {
			c.LastTransitionTime = old.LastTransitionTime
		}
		removeCondition(s, c.Type)
	}
	s.Conditions = append(s.Conditions, c)
}

func removeCondition(s *appsv1.DeploymentStatus, kind appsv1.DeploymentConditionType) {
	s.Conditions = slices.DeleteFunc(s.Conditions, func(c appsv1.DeploymentCondition) bool { return c.Type == kind })
}

func later(t metav1.Time, seconds int32) time.Time {
	return t.Add(time.Duration(seconds) * time.Second)
}
