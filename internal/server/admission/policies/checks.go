package policies

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiservercel "k8s.io/apiserver/pkg/cel"

	"github.com/millrace/millrace/internal/policycel"
	"github.com/millrace/millrace/internal/server/admission/expression"
)

// checks are a validating policy, compiled.
type checks struct {
	err        error // nothing could be compiled
	compiler   *policycel.Compiler
	conditions []expression.Named
	rules      []check
	notes      []note
}

// check is a rule of a policy.
type check struct {
	*policycel.Expression
	message     string
	reason      metav1.StatusReason
	explanation *policycel.Expression // makes the message; nil if there is none
}

// note makes an annotation of the audit event.
type note struct {
	key string
	*policycel.Expression
}

func compileChecks(p *admissionv1.ValidatingAdmissionPolicy) *checks {
	c, err := policycel.New(false, len(p.Spec.Variables) > 0)
	if err != nil {
		return &checks{err: err}
	}
	out := &checks{compiler: c}
	with := policycel.Variables{Params: p.Spec.ParamKind != nil, Authorizer: true}
	without := policycel.Variables{Params: with.Params}
	for _, v := range p.Spec.Variables {
		c.Variable(v.Name, v.Expression, with)
	}
	out.conditions = conditions(c, p.Spec.MatchConditions, with)
	for _, v := range p.Spec.Validations {
		one := check{Expression: c.Compile(v.Expression, with, cel.BoolType), message: strings.TrimSpace(v.Message), reason: metav1.StatusReasonInvalid}
		if v.Reason != nil {
			one.reason = *v.Reason
		}
		if v.MessageExpression != "" {
			one.explanation = c.Compile(v.MessageExpression, without, cel.StringType)
		}
		out.rules = append(out.rules, one)
	}
	for _, a := range p.Spec.AuditAnnotations {
		out.notes = append(out.notes, note{a.Key, c.Compile(a.ValueExpression, with, cel.StringType, cel.NullType)})
	}
	return out
}

// conditions compiles match conditions, which may not name the variables of their policy.
func conditions(c *policycel.Compiler, all []admissionv1.MatchCondition, with policycel.Variables) (out []expression.Named) {
	with.Alone = true
	for _, m := range all {
		out = append(out, expression.Named{Name: m.Name, Expression: c.Compile(m.Expression, with, cel.BoolType)})
	}
	return out
}

// finding is what a rule came to, if that was not to admit.
type finding struct {
	index   int
	denied  bool // and not an error
	message string
	reason  metav1.StatusReason
	took    time.Duration
}

// kind is how metrics call what was found.
func (f *finding) kind() string {
	switch {
	case strings.HasPrefix(f.message, "compilation"):
		return "compile_error"
	case strings.HasPrefix(f.message, "validation failed due to running out of cost budget"):
		return "out_of_budget"
	}
	return "invalid_error"
}

// result is what a policy came to with one parameter.
type result struct {
	findings []finding
	notes    map[string]string
	failed   []finding // notes that could not be made
}

func failure(err error) result { return result{findings: []finding{{message: err.Error()}}} }

// look evaluates a policy.
func (c *checks) look(ctx context.Context, in expression.Input) result {
	if c.err != nil {
		return failure(c.err)
	}
	a, err := expression.Activate(ctx, c.compiler, in)
	if err != nil {
		return failure(err)
	}
	if len(c.conditions) > 0 {
		holds, _, err := a.Hold(c.conditions)
		if err != nil {
			return failure(err)
		}
		if !holds {
			return result{}
		}
		a = a.Afresh()
	}
	var out result
	budget := int64(expression.Budget)
	for i := range c.rules {
		started := time.Now()
		value, failed, err := a.Evaluate(c.rules[i].Expression, &budget)
		if err != nil {
			return failure(err)
		}
		f := finding{index: i, took: time.Since(started)}
		switch {
		case failed != nil:
			f.message = failed.Error()
		case value != types.True:
			f.denied, f.reason = true, c.rules[i].reason
		default:
			continue
		}
		out.findings = append(out.findings, f)
	}
	c.explain(a, &out, budget)
	if err := c.annotate(a, &out); err != nil {
		return failure(err)
	}
	return out
}

// longestMessage is how long the message may be that an expression makes.
const longestMessage = 5 << 10

// explain says why rules have denied.
func (c *checks) explain(a *expression.Activation, out *result, budget int64) {
	if len(out.findings) == 0 {
		return // which is what happens most
	}
	a = a.Afresh()
	var spent error
	for i := range out.findings {
		f := &out.findings[i]
		if !f.denied {
			continue
		}
		rule := &c.rules[f.index]
		if rule.explanation != nil && spent == nil {
			value, _, err := a.Evaluate(rule.explanation, &budget)
			spent = err
			f.message = messageOf(value)
		}
		switch {
		case errors.Is(spent, apiservercel.ErrOutOfBudget), errors.Is(spent, apiservercel.ErrInternal):
			f.denied, f.reason, f.message = false, "", fmt.Sprintf("failed messageExpression: %s", spent)
		case f.message == "":
			f.message = rule.message
		}
		if f.message == "" {
			f.message = "failed expression: " + strings.TrimSpace(rule.Text)
		}
	}
}

// messageOf is a message if it can be one.
func messageOf(v ref.Val) string {
	if v == nil {
		return ""
	}
	text, _ := v.Value().(string)
	if text = strings.TrimSpace(text); len(text) > longestMessage || strings.Contains(text, "\n") {
		return ""
	}
	return text
}

// annotate makes the annotations of the audit event.
func (c *checks) annotate(a *expression.Activation, out *result) error {
	if len(c.notes) == 0 {
		return nil
	}
	a = a.Afresh()
	out.notes = map[string]string{}
	budget := int64(expression.Budget)
	for i, n := range c.notes {
		started := time.Now()
		value, failed, err := a.Evaluate(n.Expression, &budget)
		switch {
		case err != nil:
			return err
		case failed != nil:
			out.failed = append(out.failed, finding{index: i, message: failed.Error(), took: time.Since(started)})
		case value != types.NullValue:
			if text := strings.TrimSpace(fmt.Sprint(value.Value())); text != "" {
				out.notes[n.key] = text
			}
		}
	}
	return nil
}
