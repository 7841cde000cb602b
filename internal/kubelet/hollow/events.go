package hollow

import (
	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/millrace/millrace/loop"
)

// sparing limits the rate of normal events. Without it, thousands of pods that start at once would cause more writes
// for their events than for themselves.
type sparing struct {
	loop.Recorder
	limit *rate.Limiter
}

// burst is how many normal events may be recorded at once, as a multiple of the rate per second.
const burst = 5

func (n *Nodes) recorder() loop.Recorder {
	if n.options.Clients.Events == nil {
		return nil
	}
	per := max(n.options.EventRate, 0)
	return sparing{
		n.options.Clients.Events.For(corev1.EventSource{Component: "kubelet"}),
		rate.NewLimiter(rate.Limit(per), int(per*burst)),
	}
}

// Eventf records an event, or drops it.
func (s sparing) Eventf(object runtime.Object, kind, reason, format string, args ...any) {
	if kind != corev1.EventTypeNormal || s.limit.Allow() {
		s.Recorder.Eventf(object, kind, reason, format, args...)
	}
}
