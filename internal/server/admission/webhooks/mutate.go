package webhooks

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	admissionv1 "k8s.io/api/admission/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/millrace/millrace/internal/server/admission/attributes"
	"github.com/millrace/millrace/internal/server/admission/concern"
	"github.com/millrace/millrace/internal/server/registry"
)

// mutate calls the mutating webhooks that a change concerns, one after the other.
func (w *Webhooks) mutate(ctx context.Context, c *registry.Change) error {
	r, candidates, err := w.mutating.Find(ctx, c)
	if err != nil || len(candidates) == 0 {
		return err
	}
	before := fieldsBefore(c)
	rounds := concern.Begin(mutatingName, c)
	for _, candidate := range candidates {
		h := candidate.Of
		v, err := w.concerns(r, candidate, mutatingStep)
		if err != nil {
			return err
		}
		if v == nil || !rounds.Due(h.id) {
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
			rounds.Changed()
		}
		if h.reinvoke {
			rounds.Asked(h.id)
		}
		if ends != nil {
			return ends
		}
		if err != nil && late(ctx) != nil {
			return late(ctx)
		}
	}
	rounds.End()
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
	return apply(h, v, patch)
}

// apply patches the new object, and tells whether that has changed it.
func apply(h *hook, v *attributes.Version, patch jsonpatch.Patch) (bool, error) {
	text, err := concern.Patched(v, patch)
	if err != nil {
		return false, apierrors.NewInternalError(err)
	}
	patched, err := v.Read(text)
	if err != nil {
		return false, apierrors.NewInternalError(err)
	}
	notePatch(v.Change, h, patch)
	changed, err := concern.Put(v, patched)
	if err != nil {
		return false, apierrors.NewInternalError(err)
	}
	return changed, nil
}

// note is what the audit event says of a call of a webhook.
type note struct {
	Configuration string          `json:"configuration"`
	Webhook       string          `json:"webhook"`
	Mutated       *bool           `json:"mutated,omitempty"`
	Patch         jsonpatch.Patch `json:"patch,omitempty"`
	PatchType     string          `json:"patchType,omitempty"`
}

func (n note) add(c *registry.Change, h *hook, about string) {
	n.Configuration, n.Webhook = h.configuration, h.name
	text, _ := json.Marshal(n) // a patch was decoded from JSON, and nothing else in it can fail
	c.Note(fmt.Sprintf("%s.webhook.admission.k8s.io/round_%d_index_%d", about, c.Round, h.index), string(text))
}

// noteMutation says in the audit event whether a webhook has changed the object.
func noteMutation(c *registry.Change, h *hook, changed bool) {
	if c.Annotate != nil {
		note{Mutated: &changed}.add(c, h, "mutation")
	}
}

// notePatch says in an audit event that has bodies which patch of a webhook was applied.
func notePatch(c *registry.Change, h *hook, patch jsonpatch.Patch) {
	if c.Annotate != nil && c.AnnotateBodies {
		note{Patch: patch, PatchType: string(admissionv1.PatchTypeJSONPatch)}.add(c, h, "patch")
	}
}
