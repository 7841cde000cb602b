package policies

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/millrace/millrace/internal/server/admission/attributes"
	"github.com/millrace/millrace/internal/server/admission/expression"
	"github.com/millrace/millrace/internal/server/admission/match"
	"github.com/millrace/millrace/internal/server/registry"
	"github.com/millrace/millrace/internal/server/resource"
)

// verdict gathers what the policies say of a request.
type verdict struct {
	*Policies
	request  *attributes.Request
	denials  []denial
	failures []auditFailure
}

// denial is why a request is refused.
type denial struct {
	words  string
	reason metav1.StatusReason
}

// auditFailure is a denial that only the audit event tells of.
type auditFailure struct {
	Message           string                         `json:"message"`
	Policy            string                         `json:"policy"`
	Binding           string                         `json:"binding"`
	ExpressionIndex   int                            `json:"expressionIndex"`
	ValidationActions []admissionv1.ValidationAction `json:"validationActions"`
}

func (p *Policies) validate(ctx context.Context, c *registry.Change) error {
	r, candidates, err := p.validating.Find(ctx, c)
	if err != nil || len(candidates) == 0 {
		return err
	}
	v := &verdict{Policies: p, request: r}
	for _, candidate := range candidates {
		if err := v.hear(ctx, candidate); err != nil {
			return err
		}
	}
	v.publish()
	return v.answer()
}

// hear lets a policy look at the request.
func (v *verdict) hear(ctx context.Context, c match.Candidate[*policy]) error {
	p := c.Of
	as, ok, err := about(v.request, c)
	if err != nil {
		v.misconfigured(p, nil, err)
		return nil
	}
	if !ok {
		return nil
	}
	var face *resource.Face
	if p.param != nil {
		if face, err = v.params.face(p.param); err != nil {
			v.misconfigured(p, nil, err)
			return nil
		}
	}
	notes := map[string][]string{}
	for _, b := range p.bindings {
		if err := v.apply(ctx, p, b, as, face, notes); err != nil {
			return err
		}
	}
	for key, values := range notes {
		v.request.Note(p.name+"/"+key, strings.Join(values, ", "))
	}
	return nil
}

// apply lets a policy look at the request as a binding says.
func (v *verdict) apply(ctx context.Context, p *policy, b *binding, as schema.GroupVersionResource, face *resource.Face, notes map[string][]string) error {
	bound, err := v.binds(v.request, b)
	if err != nil {
		v.misconfigured(p, b, err)
		return nil
	}
	if !bound {
		return nil
	}
	params, err := v.params.of(v.request, face, b.ref)
	if err != nil {
		v.misconfigured(p, b, err)
		return nil
	}
	if len(params) == 0 {
		return nil
	}
	version, err := v.request.Version(as)
	if err != nil {
		v.misconfigured(p, b, fmt.Errorf("failed to convert object version: %w", err))
		return nil
	}
	namespace, err := v.request.NamespaceObject()
	if err != nil {
		return err
	}
	for _, param := range params {
		v.take(p, b, p.checks().look(ctx, expression.Input{Version: version, Params: param, Namespace: namespace, Authorize: v.o.Authorize}), notes)
	}
	return nil
}

// misconfigured takes an error of a policy or binding itself, which is a denial unless the policy ignores errors.
func (v *verdict) misconfigured(p *policy, b *binding, err error) {
	if !p.ignores {
		v.deny(p, b, misconfigured(b, err).Error(), "")
	}
}

func (v *verdict) deny(p *policy, b *binding, words string, reason metav1.StatusReason) {
	with := ""
	if b != nil {
		with = fmt.Sprintf(" with binding '%s'", b.name)
	}
	v.denials = append(v.denials, denial{fmt.Sprintf("ValidatingAdmissionPolicy '%s'%s denied request: %s", p.name, with, words), reason})
}

// longestNote bounds the value of an annotation.
const longestNote = 10 << 10

// take acts upon what a policy has found, as the binding says.
func (v *verdict) take(p *policy, b *binding, r result, notes map[string][]string) {
	for i := range r.findings {
		f := &r.findings[i]
		if !f.denied && p.ignores {
			v.o.Metrics.Checked(p.name, b.name, f.kind(), "allow", f.took)
			continue
		}
		for _, action := range b.actions {
			v.act(p, b, f, action)
		}
	}
	for key, value := range r.notes {
		value = value[:min(len(value), longestNote)]
		if !slices.Contains(notes[key], value) {
			notes[key] = append(notes[key], value)
		}
	}
	for i := range r.failed {
		if !p.ignores {
			v.deny(p, b, r.failed[i].message, "")
			v.o.Metrics.Checked(p.name, b.name, r.failed[i].kind(), "deny", r.failed[i].took)
		}
	}
}

func (v *verdict) act(p *policy, b *binding, f *finding, action admissionv1.ValidationAction) {
	switch action {
	case admissionv1.Deny:
		v.deny(p, b, f.message, f.reason)
	case admissionv1.Audit:
		v.failures = append(v.failures, auditFailure{f.message, p.name, b.name, f.index, b.actions})
	case admissionv1.Warn:
		v.request.Tell(fmt.Sprintf("Validation failed for ValidatingAdmissionPolicy '%s' with binding '%s': %s", p.name, b.name, f.message))
	}
	v.o.Metrics.Checked(p.name, b.name, f.kind(), strings.ToLower(string(action)), f.took)
}

// mostFailures bounds what the audit event tells.
const mostFailures = 50

// publish tells the audit event what would have been denied.
func (v *verdict) publish() {
	if len(v.failures) == 0 {
		return
	}
	text, _ := json.Marshal(v.failures[:min(len(v.failures), mostFailures)]) // nothing in it can fail
	v.request.Note("validation.policy.admission.k8s.io/validation_failure", string(text))
}

// codes are those of the reasons that a policy may give.
var codes = map[metav1.StatusReason]int32{
	metav1.StatusReasonForbidden: http.StatusForbidden, metav1.StatusReasonUnauthorized: http.StatusUnauthorized,
	metav1.StatusReasonRequestEntityTooLarge: http.StatusRequestEntityTooLarge, metav1.StatusReasonInvalid: http.StatusUnprocessableEntity,
}

// answer is the first denial.
func (v *verdict) answer() error {
	if len(v.denials) == 0 {
		return nil
	}
	first := v.denials[0]
	err := forbidden(v.request, first.words)
	if first.reason == "" {
		first.reason = metav1.StatusReasonInvalid
	}
	err.ErrStatus.Reason, err.ErrStatus.Code = first.reason, http.StatusUnprocessableEntity
	if code, ok := codes[first.reason]; ok {
		err.ErrStatus.Code = code
	}
	err.ErrStatus.Details.Causes = append(err.ErrStatus.Details.Causes, metav1.StatusCause{Message: first.words})
	return err
}
