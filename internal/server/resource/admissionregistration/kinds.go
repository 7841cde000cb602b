// Package admissionregistration describes the kinds of the group admissionregistration.k8s.io.
package admissionregistration

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/validation"

	"github.com/millrace/millrace/internal/server/resource"
)

// Kinds returns the kinds of the group.
func Kinds() []*resource.Kind {
	return []*resource.Kind{
		MutatingPolicies(), MutatingPolicyBindings(), MutatingWebhooks(),
		ValidatingPolicies(), ValidatingPolicyBindings(), ValidatingWebhooks(),
	}
}

// StaticSuffix ends the names of configurations that an API server reads from files. The API cannot create any of them.
const StaticSuffix = ".static.k8s.io"

// name checks the name of a new object.
func name(name string, prefix bool) []string {
	errs := validation.NameIsDNSSubdomain(name, prefix)
	if !prefix && strings.HasSuffix(name, StaticSuffix) {
		errs = append(errs, fmt.Sprintf("names ending with %q are reserved for static manifest-based configurations and cannot be managed via the API", StaticSuffix))
	}
	return errs
}

// extensions is the category of the kinds that extend the API.
var extensions = []string{"api-extensions"}
