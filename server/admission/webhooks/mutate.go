package webhooks

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/millrace/millrace/server/admission/attributes"
	"github.com/millrace/millrace/server/registry"
)

// mutate calls the mutating webhooks that a change concerns, one after the other.
func (w *Webhooks) mutate(ctx context.Context, c *registry.Change) error {
	r, candidates, err := w.candidates(ctx, w.mutating, c)
	if err != nil || len(candidates) == 0 {
		return err
	}
	before := fieldsBefore(c)
	m := memoryOf(c)
	if c.Round > 0 && m.changed(c.Object) {
		m.requireAll() // steps in between have changed the object
	}
	for _, candidate := range candidates {
		h := candidate.Of
		v, err := w.concerns(r, candidate, mutatingStep)
		if err != nil {
			return err
		}
		if v == nil || c.Round > 0 && !m.required[h.id] {
			continue
		}
		started := time.Now()
		changed, err := w.callMutating(ctx, h, v)
		open, ends := w.outcome(h, v, mutatingStep, time.Since(started), err)
		if open {
			c.Note(fmt.Sprintf("failed-open.mutation.webhook.admission.k8s.io/round_%d_index_%d", c.Round, h.index), h.name)
		}
		noteMutation(c, h, changed)
		if changed {
			m.requireAll()
			c.AskAgain()
		}
		if h.reinvoke {
			m.invoked = append(m.invoked, h.id)
		}
		if ends != nil {
			return ends
		}
		if err != nil && late(ctx) != nil {
			return late(ctx)
		}
	}
	m.last = copyOf(c.Object)
	checkFields(c, before)
	return nil
}

// callMutating calls a webhook and applies its patch.
func (w *Webhooks) callMutating(ctx context.Context, h *hook, v *attributes.Version) (changed bool, err error) {
	answer, err := w.call(ctx, h, v, true)
	if err != nil {
		return false, err
	}
	if err := take(h, v, answer); err != nil || len(answer.Patch) == 0 {
		return false, err
	}
	patch, err := jsonpatch.DecodePatch(answer.Patch)
	switch {
	case err != nil:
		return false, &failure{h.name, fmt.Errorf("received undecodable patch in webhook response: %w", err), 503}
	case len(patch) == 0:
		return false, nil
	case v.New == nil:
		return false, apierrors.NewInternalError(fmt.Errorf("admission webhook %q attempted to modify the object, which is not supported for this operation", h.name))
	case *answer.PatchType != admissionv1.PatchTypeJSONPatch:
		return false, &failure{h.name, fmt.Errorf("unsupported patch type %q", *answer.PatchType), 400}
	}
	return apply(v, patch)
}

// apply patches the new object, and tells whether that has changed it.
func apply(v *attributes.Version, patch jsonpatch.Patch) (bool, error) {
	text, err := attributes.JSON(v.New)
	if err != nil {
		return false, apierrors.NewInternalError(err)
	}
	if text, err = patch.Apply(text); err != nil {
		return false, apierrors.NewInternalError(err)
	}
	patched, err := v.Read(text)
	if err != nil {
		return false, apierrors.NewInternalError(err)
	}
	if equality.Semantic.DeepEqual(v.New, patched) {
		return false, nil
	}
	if err := v.Replace(patched); err != nil {
		return false, apierrors.NewInternalError(err)
	}
	return true, nil
}

// noteMutation says in the audit event whether a webhook has changed the object.
func noteMutation(c *registry.Change, h *hook, changed bool) {
	if c.Annotate == nil {
		return
	}
	text, _ := json.Marshal(struct { // nothing in it can fail
		Configuration string `json:"configuration"`
		Webhook       string `json:"webhook"`
		Mutated       bool   `json:"mutated"`
	}{h.configuration, h.name, changed})
	c.Note(fmt.Sprintf("mutation.webhook.admission.k8s.io/round_%d_index_%d", c.Round, h.index), string(text))
}
