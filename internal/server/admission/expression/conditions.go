package expression

import (
	"errors"
	"strings"

	"github.com/google/cel-go/common/types"
	admissionv1 "k8s.io/api/admissionregistration/v1"

	"github.com/millrace/millrace/internal/policycel"
)

// Condition that must hold for a webhook to be called, or for a policy to be looked at.
type Named struct {
	Name string
	*policycel.Expression
}

// Conditions compiles those of a webhook.
func Conditions(all []admissionv1.MatchCondition) []Named {
	var out []Named
	for _, c := range all {
		out = append(out, Named{c.Name, policycel.Condition(c.Expression)})
	}
	return out
}

// Hold tells whether all conditions hold. As soon as one does not, errors of others do not matter; failed is how many
// could not be evaluated.
func (a *Activation) Hold(all []Named) (holds bool, failed int, err error) {
	budget := int64(ConditionBudget)
	var errs []error
	for _, c := range all {
		v, failure, err := a.Evaluate(c.Expression, &budget)
		switch {
		case err != nil:
			return false, failed, err
		case failure != nil:
			errs = append(errs, failure)
		case v == types.False:
			return false, len(errs), nil
		}
	}
	if len(errs) > 0 {
		return false, len(errs), joined(errs)
	}
	return true, 0, nil
}

// joined says errors as Kubernetes does, each once.
func joined(errs []error) error {
	if len(errs) == 1 {
		return errs[0]
	}
	var words []string
	known := map[string]bool{}
	for _, err := range errs {
		if w := err.Error(); !known[w] {
			known[w] = true
			words = append(words, w)
		}
	}
	if len(words) == 1 {
		return errs[0]
	}
	return errors.New("[" + strings.Join(words, ", ") + "]")
}
