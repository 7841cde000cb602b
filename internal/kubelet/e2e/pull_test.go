package e2e

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/millrace/millrace/internal/kubelet/container"
	"github.com/millrace/millrace/internal/kubelet/hollow"
)

// noImages is a runtime's store of images that has none, and gets none.
type noImages struct{}

func (noImages) Find(context.Context, string) (string, error) { return "", nil }
func (noImages) Pull(context.Context, string, []container.Credential) (string, error) {
	return "", errors.New("nobody has it")
}

func TestFailureOfAPullIsSeenBeforeItsBackOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, hollow.NewRuntime(func(string) string { return "10.64.0.0/24" }), noImages{}, false)
		p := s.put(pod(corev1.Container{Name: "main", Image: image}))
		since := func(reason string) time.Time {
			s.until(p, reason, func(st *corev1.PodStatus) bool {
				w := of(st, "main").State.Waiting
				return w != nil && w.Reason == reason
			})
			return time.Now()
		}
		for range 3 { // whatever else makes the kubelet look at the pod
			failed := since("ErrImagePull")
			s.crew.Changed(keyOf(p))
			if shown := since("ImagePullBackOff").Sub(failed); shown < 100*time.Millisecond {
				t.Errorf("the failure was shown for %v only", shown)
			}
		}
	})
}
