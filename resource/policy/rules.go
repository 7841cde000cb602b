package policy

import (
	policyv1 "k8s.io/api/policy/v1"

	"github.com/millrace/millrace/resource"
)

var budgetRules, budgetStatusRules resource.Rules[*policyv1.PodDisruptionBudget]
