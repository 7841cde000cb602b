package apiserver

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace/millrace/internal/server/resource"
)

// oneOfEachOwner removes duplicate owner references, and warns the client.
func (c *call) oneOfEachOwner(o resource.Object, when string, tell bool) {
	owners := o.GetOwnerReferences()
	if len(owners) < 2 {
		return
	}
	var once []metav1.OwnerReference
	var twice []string
	for _, owner := range owners {
		same := func(other metav1.OwnerReference) bool { return equality.Semantic.DeepEqual(owner, other) }
		switch {
		case !slices.ContainsFunc(once, same):
			once = append(once, owner)
		case !slices.Contains(twice, string(owner.UID)):
			twice = append(twice, string(owner.UID))
		}
	}
	if len(once) == len(owners) {
		return
	}
	o.SetOwnerReferences(once)
	if tell {
		c.warn(fmt.Sprintf(".metadata.ownerReferences contains duplicate entries%s; API server dedups owner references in 1.20+, and may reject such requests as early as 1.24; "+
			"please fix your requests; duplicate UID(s) observed: %s", when, strings.Join(twice, ", ")))
	}
}
