package plugin

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"

	"github.com/millrace/millrace/scheduler/internal/cluster"
)

// State is what the scheduler knows of the cluster.
type State = cluster.State

// PodRule looks at what one pod uses that pods of its shape do not share with it, such as its volumes. So nothing that it says
// is kept: it is asked about the nodes that all other filters admit, best first, until it admits one.
type PodRule interface {
	Plugin
	// Open looks at a pod that is to be placed. It returns nil if it has nothing to say about the pod. The error is a [Refusal]
	// if no node at all will do, and [Pending] if the pod is to wait.
	Open(pod *Pod, state *State) (Case, error)
}

// Refusal is the error of a [PodRule] that no node can satisfy as things are.
type Refusal string

func (r Refusal) Error() string { return string(r) }

// Pending is the error of a [PodRule] about a pod that is not to be tried yet, because something is still to be made for it.
// Nobody is told.
type Pending string

func (p Pending) Error() string { return string(p) }

// Case is a [PodRule] at work on one pod. It may also be a [Reserver], a [Preparer] and a [CaseScore].
type Case interface {
	// Filter is Filter of the type [Filter], for this pod.
	Filter(node *Node) *Verdict
}

// Reserver takes what the pod is going to use, so that other pods do not get it.
type Reserver interface {
	// Reserve is called when a node has been chosen. On an error nothing is reserved.
	Reserve(node *Node) error
	// Unreserve takes it back, if the pod does not get the node after all.
	Unreserve()
}

// Preparer has something to do in the API before the pod is bound, such as binding its volumes.
type Preparer interface {
	// Prepares says whether there is anything to do. It is called after Reserve.
	Prepares() bool
	// Prepare may take its time: other pods are placed meanwhile. On an error the pod is not bound, and tried again later.
	Prepare(ctx context.Context, access Access) error
}

// Rescuer can give back what keeps the pod from being placed.
type Rescuer interface {
	// Rescue is called when no node has been found. do is nil if there is nothing to give back; note is what users are told.
	Rescue() (note string, do func(ctx context.Context, access Access) error)
}

// CaseScore says how good a node is for the pod, from 0 to [MaxScore]. It is asked about all nodes that are admitted.
type CaseScore interface {
	// Scores says whether there is anything to score.
	Scores() bool
	Score(node *Node) int64
}

// Access is what a [Preparer] works with.
type Access interface {
	Writer
	// Look calls look while nothing changes the state. It must be quick.
	Look(look func(*State))
	// Tell records an event about the pod.
	Tell(reason, message string)
	// Changed is closed when something about volumes or devices has changed since it was called.
	Changed() <-chan struct{}
}

// Writer is what pod rules write.
type Writer interface {
	UpdateVolume(ctx context.Context, volume *corev1.PersistentVolume) (*corev1.PersistentVolume, error)
	UpdateClaim(ctx context.Context, claim *corev1.PersistentVolumeClaim) (*corev1.PersistentVolumeClaim, error)
	// ChangeResourceClaim changes a claim and its status, beginning with the version that is given. If there is a newer one
	// change is asked again. It returns the claim as it was written.
	ChangeResourceClaim(ctx context.Context, was *resourcev1.ResourceClaim, change func(now *resourcev1.ResourceClaim) error) (*resourcev1.ResourceClaim, error)
}
