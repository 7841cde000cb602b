// Package admissionregistration describes the kinds of the group admissionregistration.k8s.io.
package admissionregistration

import "github.com/millrace/millrace/server/resource"

// Kinds returns the kinds of the group.
func Kinds() []*resource.Kind {
	return []*resource.Kind{
		MutatingPolicies(), MutatingPolicyBindings(), MutatingWebhooks(),
		ValidatingPolicies(), ValidatingPolicyBindings(), ValidatingWebhooks(),
	}
}

// extensions is the category of the kinds that extend the API.
var extensions = []string{"api-extensions"}
