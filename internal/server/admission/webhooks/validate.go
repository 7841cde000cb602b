package webhooks

import (
	"context"
	"fmt"
	"sync"
	"time"

	admissionv1 "k8s.io/api/admission/v1"

	"github.com/millrace/millrace/internal/server/admission/attributes"
	"github.com/millrace/millrace/internal/server/registry"
)

// asked is a validating webhook and what it came to.
type asked struct {
	hook    *hook
	version *attributes.Version
	answer  *admissionv1.AdmissionResponse
	err     error
	took    time.Duration
}

// validate calls the validating webhooks that a change concerns, all at the same time. The refusal of the first in
// order is the answer.
func (w *Webhooks) validate(ctx context.Context, c *registry.Change) error {
	r, candidates, err := w.validating.Find(ctx, c)
	if err != nil || len(candidates) == 0 {
		return err
	}
	var all []*asked
	for _, candidate := range candidates {
		v, err := w.concerns(r, candidate, validatingStep)
		if err != nil {
			return err
		}
		if v != nil {
			all = append(all, &asked{hook: candidate.Of, version: v})
		}
	}
	if len(all) == 0 {
		return nil
	}
	if err := late(ctx); err != nil {
		return err
	}
	r.UserInfo() // made once, for all of them
	var calls sync.WaitGroup
	for _, a := range all[1:] {
		calls.Go(func() { w.ask(ctx, a) })
	}
	w.ask(ctx, all[0])
	calls.Wait()
	return w.judge(c, all)
}

func (w *Webhooks) ask(ctx context.Context, a *asked) {
	started := time.Now()
	a.answer, a.err = w.call(ctx, a.hook, a.version, false)
	a.took = time.Since(started)
}

// judge takes the answers in, in order.
func (w *Webhooks) judge(c *registry.Change, all []*asked) (first error) {
	for i, a := range all {
		if a.err == nil {
			a.err = take(a.hook, a.version, a.answer)
		}
		open, ends := w.outcome(a.hook, a.version, validatingStep, a.took, a.err)
		if open {
			c.Note(fmt.Sprintf("failed-open.validating.webhook.admission.k8s.io/round_0_index_%d", i), a.hook.name)
		}
		if first == nil {
			first = ends
		}
	}
	return first
}
