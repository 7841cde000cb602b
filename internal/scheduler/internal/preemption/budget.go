package preemption

import (
	"github.com/millrace/millrace/internal/scheduler/internal/cluster"

	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// Budget is a disruption budget.
type Budget struct {
	Namespace string
	Selector  labels.Selector
	// Allowed is how many more of its pods may be disrupted.
	Allowed int32
	// Disrupted are the names of pods that already count as disrupted.
	Disrupted map[string]metav1.Time
}

// BudgetOf converts a disruption budget. ok is false if it selects no pods or is invalid.
func BudgetOf(object *policyv1.PodDisruptionBudget) (b Budget, ok bool) {
	selector, err := metav1.LabelSelectorAsSelector(object.Spec.Selector)
	if err != nil || selector.Empty() {
		return Budget{}, false
	}
	return Budget{
		Namespace: object.Namespace, Selector: selector,
		Allowed: object.Status.DisruptionsAllowed, Disrupted: object.Status.DisruptedPods,
	}, true
}

// Same reports whether two budgets select the same pods.
func (b *Budget) Same(other *Budget) bool {
	return b.Namespace == other.Namespace && b.Selector.String() == other.Selector.String()
}

// split separates the pods whose preemption in this order would violate a budget from the others. guarded reports
// whether any of them has a budget.
func split(pods []*cluster.Pod, budgets []Budget) (violating, others []*cluster.Pod, guarded bool) {
	allowed := make([]int32, len(budgets))
	for i := range budgets {
		allowed[i] = budgets[i].Allowed
	}
	for _, p := range pods {
		violates := false
		for i := range budgets {
			if !budgets[i].protects(p) {
				continue
			}
			guarded = true
			if allowed[i]--; allowed[i] < 0 {
				violates = true
			}
		}
		if violates {
			violating = append(violating, p)
		} else {
			others = append(others, p)
		}
	}
	return violating, others, guarded
}

func (b *Budget) protects(p *cluster.Pod) bool {
	if b.Namespace != p.Key.Namespace || len(p.Shape.Labels) == 0 || !b.Selector.Matches(p.Shape.Labels) {
		return false
	}
	_, disrupted := b.Disrupted[p.Key.Name]
	return !disrupted
}
