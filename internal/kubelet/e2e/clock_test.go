package e2e

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/millrace/millrace/internal/kubelet/container"
	"github.com/millrace/millrace/internal/kubelet/hollow"
)

// jumped is a runtime whose times are those of a clock that has been set since: by so much it was fast.
type jumped struct {
	*hollow.Runtime
	by time.Duration
}

func (j jumped) Pod(ctx context.Context, uid types.UID) (container.Pod, error) {
	p, err := j.Runtime.Pod(ctx, uid)
	for i := range p.Containers {
		c := &p.Containers[i]
		for _, at := range []*time.Time{&c.CreatedAt, &c.StartedAt, &c.FinishedAt} {
			if !at.IsZero() {
				*at = at.Add(j.by).Round(0)
			}
		}
	}
	return p, err
}

func TestBackOffsAndProbesOutliveJumpsOfTheClock(t *testing.T) {
	for name, by := range map[string]time.Duration{"backwards": time.Hour, "forwards": -time.Hour} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := hollow.NewRuntime(func(string) string { return "10.64.0.0/24" })
				s := newStage(t, jumped{r, by}, r, false)
				crashing := life{parts: []part{{name: "main", play: play{code: 1, after: 10 * time.Millisecond}}}}.pod()
				s.put(crashing)
				s.until(crashing, "restarted four times", func(st *corev1.PodStatus) bool { return of(st, "main").RestartCount >= 4 })
				probed := life{parts: []part{{name: "main", play: play{lasts: true}, more: func(_ *corev1.Pod, c *corev1.Container) {
					c.ReadinessProbe = probe("true")
					c.ReadinessProbe.InitialDelaySeconds = 3
				}}}}.pod()
				probed.Name = "probed"
				s.put(probed)
				s.until(probed, "ready", ready)
				s.remove(crashing)
				s.gone(crashing)
				s.remove(probed)
				s.gone(probed)
			})
		})
	}
}
