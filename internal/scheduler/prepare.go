package scheduler

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"

	"github.com/millrace/millrace/internal/scheduler/internal/cluster"
	"github.com/millrace/millrace/internal/scheduler/plugin"
)

// prepareError is an error before the binding was sent.
type prepareError struct {
	rule string
	err  error
}

func (e *prepareError) Error() string {
	return fmt.Sprintf("running PreBind plugin %q: %v", e.rule, e.err)
}

func (e *prepareError) Unwrap() error { return e.err }

// prepare does what must be done before a pod is bound.
func (b *binder) prepare(ctx context.Context, d decision) error {
	for _, o := range d.cases {
		p, ok := o.Case.(plugin.Preparer)
		if !ok || !p.Prepares() {
			continue
		}
		if b.options.Writer == nil {
			return &prepareError{o.Rule, errors.New("there is no writer")}
		}
		if err := p.Prepare(ctx, access{b.options.Writer, b.knowledge, d.pod}); err != nil {
			return &prepareError{o.Rule, err}
		}
	}
	return nil
}

// undo undoes in the API what was done for a pod that was not bound.
func (b *binder) undo(ctx context.Context, d decision) {
	for i := len(d.cases) - 1; i >= 0; i-- {
		u, ok := d.cases[i].Case.(plugin.Undoer)
		if !ok {
			continue
		}
		if err := u.Undo(ctx, access{b.options.Writer, b.knowledge, d.pod}); err != nil {
			b.options.Logger.Warn("what was done for a pod that was not bound cannot be undone", "pod", d.pod.Key, "rule", d.cases[i].Rule, "err", err)
		}
	}
}

// access implements [plugin.Access].
type access struct {
	plugin.Writer
	*knowledge
	pod *cluster.Pod
}

func (a access) RecordEvent(reason, message string) {
	a.reporter.event(a.pod, corev1.EventTypeNormal, reason, message)
}

func (a access) CreateResourceClaim(ctx context.Context, claim *resourcev1.ResourceClaim) (*resourcev1.ResourceClaim, error) {
	created, err := a.Writer.CreateResourceClaim(ctx, claim)
	a.options.Metrics.ClaimCreated(err)
	return created, err
}

func (a access) CountDeviceWait(w plugin.DeviceWait) {
	a.options.Metrics.DeviceWaited(a.pod.SchedulerName, w)
}

func (a access) WithState(look func(*cluster.State)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	look(&a.state)
}

func (a access) Changed() <-chan struct{} {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.storageChange == nil {
		a.storageChange = make(chan struct{})
	}
	return a.storageChange
}
