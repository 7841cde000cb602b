package rules

import (
	"slices"
	"testing"

	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace/millrace/internal/scheduler/internal/cluster"
)

// Of two pods that share a claim, the second sees the allocation that the first is about to write, and may write it
// first.
func TestWhoeverWritesAnAllocationProtectsItsClaim(t *testing.T) {
	seen := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "gpu", UID: "1"}}
	seen.Status.Allocation = &resourcev1.AllocationResult{}
	second := &allocation{pod: &cluster.Pod{Key: cluster.Key{Namespace: "a", Name: "two"}, UID: "two"}}
	written := seen.DeepCopy()
	if err := second.change(written, &claimChange{wanted: seen}); err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(written.Finalizers, resourcev1.Finalizer) || written.Status.Allocation.AllocationTimestamp == nil || len(written.Status.ReservedFor) != 1 {
		t.Errorf("written is %+v", written)
	}
}
