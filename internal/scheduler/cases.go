package scheduler

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"

	"github.com/millrace/millrace/internal/scheduler/internal/cluster"
	"github.com/millrace/millrace/internal/scheduler/internal/ruleset"
	"github.com/millrace/millrace/internal/scheduler/placement"
	"github.com/millrace/millrace/internal/scheduler/plugin"
)

// cases are the pod rules, opened for one pod.
type cases []ruleset.Opened

// extra returns the filters and scores for this pod only.
func (c cases) extra() placement.Extra {
	var x placement.Extra
	for _, o := range c {
		at := &x.Before
		if o.Late {
			at = &x.After
		}
		*at = both(*at, o.Filter)
		if d, ok := o.Case.(plugin.Doubter); ok {
			x.Doubtful = either(x.Doubtful, d.Doubtful())
		}
		if s, ok := o.Case.(plugin.CaseScore); ok && o.Weight != 0 && s.Scores() {
			score := placement.Score{Weight: o.Weight, Of: s.Score}
			if n, ok := o.Case.(plugin.Normalizer); ok {
				score.Normalize = n.Normalize
			}
			x.Scores = append(x.Scores, score)
		}
	}
	return x
}

// both returns an admission that requires both; the first may be nil.
func both(first, second placement.Admission) placement.Admission {
	if first == nil {
		return second
	}
	return func(node *cluster.Node) *plugin.Verdict {
		if v := first(node); v != nil {
			return v
		}
		return second(node)
	}
}

// either returns whether one of two functions, of which each may be nil, is true for a node.
func either(first, second func(*cluster.Node) bool) func(*cluster.Node) bool {
	switch {
	case first == nil:
		return second
	case second == nil:
		return first
	}
	return func(node *cluster.Node) bool { return first(node) || second(node) }
}

// reserve calls Reserve of all cases. If one fails, nothing stays reserved, and the rule that failed is returned.
func (c cases) reserve(node *cluster.Node) (rule string, err error) {
	for i, o := range c {
		r, ok := o.Case.(plugin.Reserver)
		if !ok {
			continue
		}
		if err := r.Reserve(node); err != nil {
			c[:i].unreserve()
			return o.Rule, err
		}
	}
	return "", nil
}

// reserve calls Reserve of all cases of a decision.
func (t *term) reserve(d decision, node *cluster.Node) (rule string, err error) {
	if len(d.cases) == 0 {
		return "", nil
	}
	begun := time.Now()
	rule, err = d.cases.reserve(node)
	d.profile.metrics.Ran(Reserve, statusOf(err), time.Since(begun))
	return rule, err
}

func (c cases) unreserve() {
	for i := len(c) - 1; i >= 0; i-- {
		if r, ok := c[i].Case.(plugin.Reserver); ok {
			r.Unreserve()
		}
	}
}

// prepare reports whether something must be done before the pod is bound.
func (c cases) prepare() bool {
	for _, o := range c {
		if p, ok := o.Case.(plugin.Preparer); ok && p.Prepares() {
			return true
		}
	}
	return false
}

// releaseClaims releases what keeps a pod from being placed, in a goroutine. It returns a note for the user.
func (t *term) releaseClaims(d decision) string {
	for _, o := range d.cases {
		r, ok := o.Case.(plugin.Releaser)
		if !ok || t.options.Writer == nil {
			continue
		}
		note, do := r.Release()
		if do == nil {
			continue
		}
		t.evictions.Go(func() {
			if err := do(t.evictionContext, access{t.options.Writer, t, d.pod}); err != nil {
				t.options.Logger.Warn("a pod that found no node could not be helped", "pod", d.pod.Key, "rule", o.Rule, "err", err)
			}
		})
		return note
	}
	return ""
}

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
func (t *term) prepare(ctx context.Context, d decision) error {
	for _, o := range d.cases {
		p, ok := o.Case.(plugin.Preparer)
		if !ok || !p.Prepares() {
			continue
		}
		if t.options.Writer == nil {
			return &prepareError{o.Rule, errors.New("there is no writer")}
		}
		if err := p.Prepare(ctx, access{t.options.Writer, t, d.pod}); err != nil {
			return &prepareError{o.Rule, err}
		}
	}
	return nil
}

// undo undoes in the API what was done for a pod that was not bound.
func (t *term) undo(ctx context.Context, d decision) {
	for i := len(d.cases) - 1; i >= 0; i-- {
		u, ok := d.cases[i].Case.(plugin.Undoer)
		if !ok {
			continue
		}
		if err := u.Undo(ctx, access{t.options.Writer, t, d.pod}); err != nil {
			t.options.Logger.Warn("what was done for a pod that was not bound cannot be undone", "pod", d.pod.Key, "rule", d.cases[i].Rule, "err", err)
		}
	}
}

// access implements [plugin.Access].
type access struct {
	plugin.Writer
	*term
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

// storageChanged wakes goroutines that wait for changes of volumes or devices.
func (t *term) storageChanged() {
	if t.storageChange != nil {
		close(t.storageChange)
		t.storageChange = nil
	}
}
