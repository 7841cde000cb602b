package policies

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/millrace/millrace/internal/server/admission/attributes"
	"github.com/millrace/millrace/internal/server/admission/concern"
	"github.com/millrace/millrace/internal/server/admission/expression"
	"github.com/millrace/millrace/internal/server/admission/match"
	"github.com/millrace/millrace/internal/server/registry"
	"github.com/millrace/millrace/internal/server/resource"
)

// invocation is a policy that alters a request, as a binding says, with a parameter.
type invocation struct {
	policy  *policy
	binding *binding
	as      schema.GroupVersionResource
	param   runtime.Object
}

// key names the invocation in the second round.
func (i *invocation) key() string {
	name := ""
	if o, ok := i.param.(metav1.Object); ok && i.param != nil {
		name = o.GetNamespace() + "/" + o.GetName()
	}
	return i.policy.name + "/" + i.binding.name + "/" + name
}

// alteration is what policies do to a request.
type alteration struct {
	*Policies
	request *attributes.Request
	errors  []denial
}

func (p *Policies) mutate(ctx context.Context, c *registry.Change) error {
	if c.Operation == registry.Delete {
		return nil // there is nothing to alter
	}
	r, candidates, err := p.mutating.Find(ctx, c)
	if err != nil || len(candidates) == 0 {
		return err
	}
	a := &alteration{Policies: p, request: r}
	var all []invocation
	for _, candidate := range candidates {
		all = append(all, a.invocations(candidate)...)
	}
	if len(all) > 0 {
		if err := a.run(ctx, all); err != nil {
			return err
		}
	}
	return a.answer()
}

// invocations are what one policy has to do with the request.
func (a *alteration) invocations(c match.Candidate[*policy]) (out []invocation) {
	p := c.Of
	as, ok, err := about(a.request, c)
	if err != nil {
		a.fail(p, nil, misconfigured(nil, err))
		return nil
	}
	if !ok {
		return nil
	}
	var face *resource.Face
	if p.param != nil {
		if face, err = a.params.face(p.param); err != nil {
			a.fail(p, nil, misconfigured(nil, err))
			return nil
		}
	}
	for _, b := range p.bindings {
		bound, err := a.binds(a.request, b)
		var params []runtime.Object
		if err == nil && bound {
			params, err = a.params.of(a.request, face, b.ref)
		}
		if err != nil {
			a.fail(p, b, misconfigured(b, err))
			continue
		}
		for _, param := range params {
			out = append(out, invocation{p, b, as, param})
		}
	}
	return out
}

// fail notes an error, unless the policy ignores them.
func (a *alteration) fail(p *policy, b *binding, err error) {
	if p.ignores {
		return
	}
	words := fmt.Sprintf("policy %q denied request: %v", p.name, err)
	if b != nil {
		words = fmt.Sprintf("policy '%s' with binding '%s' denied request: %v", p.name, b.name, err)
	}
	d := denial{words: words}
	if b != nil && !strings.HasPrefix(err.Error(), "failed to configure") {
		d.reason = metav1.StatusReasonInvalid
	}
	a.errors = append(a.errors, d)
}

// answer is the first error, with all of them as causes.
func (a *alteration) answer() error {
	if len(a.errors) == 0 {
		return nil
	}
	err := forbidden(a.request, "")
	err.ErrStatus.Message = a.errors[0].words
	if a.errors[0].reason != "" {
		err.ErrStatus.Reason = a.errors[0].reason
	}
	for _, e := range a.errors {
		err.ErrStatus.Details.Causes = append(err.ErrStatus.Details.Causes, metav1.StatusCause{Message: e.words})
	}
	return err
}

// run carries the invocations out, one after the other.
func (a *alteration) run(ctx context.Context, all []invocation) error {
	rounds := concern.Begin(mutatingName, a.request.Change)
	for i := range all {
		one := &all[i]
		if !rounds.Due(one.key()) {
			continue
		}
		program := one.policy.changes()
		if program.err != nil {
			return apierrors.NewInternalError(program.err)
		}
		ran, changed, err := a.invoke(ctx, one, program)
		if err != nil {
			return err
		}
		if ran && program.again { // in Kubernetes its own change, too, has a policy asked again
			rounds.Asked(one.key())
		}
		if changed {
			rounds.Changed()
		}
	}
	rounds.End()
	return nil
}

// invoke evaluates the mutations of a policy, each on what the one before has made.
func (a *alteration) invoke(ctx context.Context, one *invocation, program *changes) (ran, changed bool, err error) {
	v, err := a.request.Version(one.as)
	if err != nil {
		return false, false, apierrors.NewInternalError(err)
	}
	namespace, err := a.request.NamespaceObject()
	if err != nil {
		return false, false, err
	}
	in := expression.Input{Version: v, Params: one.param, Namespace: namespace, Authorize: a.o.Authorize}
	if len(program.conditions) > 0 {
		act, err := expression.Activate(ctx, program.compiler, in)
		holds := false
		if err == nil {
			holds, _, err = act.Hold(program.conditions)
		}
		if err != nil {
			a.fail(one.policy, one.binding, err)
		}
		if err != nil || !holds {
			return false, false, nil
		}
	}
	in.Plain = true
	for i := range program.mutations {
		if v.New == nil {
			continue
		}
		started := time.Now()
		did, err := a.alter(ctx, program, &program.mutations[i], in)
		took := time.Since(started)
		changed = changed || did
		a.o.Metrics.Mutated(one.policy.name, one.binding.name, kindOf(err), took)
		if status := (*apierrors.StatusError)(nil); errors.As(err, &status) {
			return true, changed, status
		}
		if err != nil {
			a.fail(one.policy, one.binding, err)
		}
	}
	return true, changed, nil
}

// kindOf is how metrics call an error.
func kindOf(err error) string {
	if err == nil {
		return "no_error"
	}
	return (&finding{message: err.Error()}).kind()
}

// alter evaluates a mutation and puts what it makes in the place of the object.
func (a *alteration) alter(ctx context.Context, program *changes, m *mutationOf, in expression.Input) (changed bool, err error) {
	if m.Err != nil {
		return false, m.Err
	}
	act, err := expression.Activate(ctx, program.compiler, in)
	if err != nil {
		return false, err
	}
	budget := int64(expression.Budget)
	value, failed, err := act.Evaluate(m.Expression, &budget)
	if err != nil || failed != nil {
		return false, errors.Join(failed, err)
	}
	v := in.Version
	var made runtime.Object
	if m.json {
		patch, err := patchOf(value)
		if err != nil {
			return false, err
		}
		if made, err = patched(v, patch); err != nil || made == nil {
			return false, err
		}
	} else {
		fields, err := configurationOf(value)
		if err != nil {
			return false, err
		}
		if made, err = a.merged(v, fields); err != nil {
			return false, err
		}
	}
	if changed, err = concern.Put(v, made); err != nil {
		return false, apierrors.NewInternalError(err)
	}
	return changed, nil
}

// patched is the object with a patch; nil if a test in it fails.
func patched(v *attributes.Version, patch jsonpatch.Patch) (runtime.Object, error) {
	text, err := concern.Patched(v, patch)
	switch {
	case errors.Is(err, jsonpatch.ErrTestFailed):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("JSON Patch: %w", err)
	}
	made, err := v.ReadStrict(text)
	if err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	return made, nil
}
