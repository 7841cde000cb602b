package plugin

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"

	"github.com/millrace/millrace/internal/scheduler/internal/cluster"
)

// State is the scheduler's state of the cluster.
type State = cluster.State

// PodRule depends on things that differ between pods of the same shape, such as volumes. So its results are not kept:
// it is called for the nodes that all other filters admit, best first, until it admits one.
type PodRule interface {
	Plugin
	// Open begins to place a pod. It returns nil if the rule does not apply to the pod. The error is a [Refusal] if no
	// node is suitable, and a [Pending] if the pod must wait.
	Open(pod *Pod, state *State) (Case, error)
}

// Refusal is the error of a [PodRule] if no node is suitable at present.
type Refusal string

func (r Refusal) Error() string { return string(r) }

// Pending is the error of a [PodRule] for a pod that must not be tried yet, because something has not been created for
// it yet. It is not reported to users.
type Pending string

func (p Pending) Error() string { return string(p) }

// Case is a [PodRule] for one pod. It may also be a [Doubter], a [Reserver], a [Preparer], an [Undoer], a [Releaser]
// and a [CaseScore].
type Case interface {
	// Filter returns nil if the pod may go to the node, and otherwise the reason.
	Filter(node *Node) *Verdict
}

// Doubter is a [Case] whose filter may have an error.
type Doubter interface {
	// Doubtful returns a function that reports on which nodes that may be; nil if on none. A node with an error is
	// found even if another one is better.
	Doubtful() func(node *Node) bool
}

// Reserver reserves what the pod is going to use, so that other pods do not get it.
type Reserver interface {
	// Reserve is called when a node has been chosen. After an error nothing is reserved.
	Reserve(node *Node) error
	// Unreserve releases it, if the pod is not bound to the node.
	Unreserve()
}

// Preparer does something in the API before the pod is bound, such as binding its volumes.
type Preparer interface {
	// Prepares reports whether there is anything to do. It is called after Reserve.
	Prepares() bool
	// Prepare may block: other pods are placed meanwhile. After an error the pod is not bound, and is tried again
	// later.
	Prepare(ctx context.Context, access Access) error
}

// Undoer undoes what a [Preparer] did in the API.
type Undoer interface {
	// Undo is called before Unreserve if the pod was not bound after Prepare.
	Undo(ctx context.Context, access Access) error
}

// Releaser can release what keeps the pod from being placed.
type Releaser interface {
	// Release is called when no node was found. do is nil if there is nothing to release; note is added to the pod's
	// message.
	Release() (note string, do func(ctx context.Context, access Access) error)
}

// CaseScore rates nodes for the pod, from 0 to [MaxScore] unless it is a [Normalizer] too. It is called for all
// admitted nodes.
type CaseScore interface {
	// Scores reports whether there is anything to score.
	Scores() bool
	Score(node *Node) int64
}

// Access is what a [Preparer] uses.
type Access interface {
	Writer
	// WithState calls a function while the state does not change. The function must be fast.
	WithState(look func(*State))
	// RecordEvent records an event about the pod.
	RecordEvent(reason, message string)
	// Changed returns a channel that is closed at the next change of volumes or devices.
	Changed() <-chan struct{}
	// CountDeviceWait counts that the pod has waited for a device.
	CountDeviceWait(DeviceWait)
}

// DeviceWait is how a pod has waited for its devices to be ready, for one of them.
type DeviceWait struct {
	Driver      string
	Conditioned bool   // the pod waited for this device, and not only for others
	Outcome     string // success, failure, timeout or error
	Took        time.Duration
}

// Writer writes the decisions of pod rules.
type Writer interface {
	UpdateVolume(ctx context.Context, volume *corev1.PersistentVolume) (*corev1.PersistentVolume, error)
	UpdateClaim(ctx context.Context, claim *corev1.PersistentVolumeClaim) (*corev1.PersistentVolumeClaim, error)
	// ChangeResourceClaim changes a claim and its status, starting with the given version. If there is a newer one,
	// change is called again with that. It returns the written claim.
	ChangeResourceClaim(ctx context.Context, was *resourcev1.ResourceClaim, change func(now *resourcev1.ResourceClaim) error) (*resourcev1.ResourceClaim, error)
	// CreateResourceClaim creates a claim under a generated name.
	CreateResourceClaim(ctx context.Context, claim *resourcev1.ResourceClaim) (*resourcev1.ResourceClaim, error)
	// DeleteResourceClaim deletes a claim, even if its devices are allocated. It is no error if there is none.
	DeleteResourceClaim(ctx context.Context, claim *resourcev1.ResourceClaim) error
	// SetExtendedClaim writes into a pod's status which claim its extended resources have.
	SetExtendedClaim(ctx context.Context, pod *Pod, status *corev1.PodExtendedResourceClaimStatus) error
}
