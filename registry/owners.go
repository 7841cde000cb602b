package registry

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace/millrace/resource"
)

// oneOwnerEach drops owners that are named twice in the same words, and says so.
func oneOwnerEach(o resource.Object, opt WriteOptions) {
	owners := o.GetOwnerReferences()
	if len(owners) < 2 {
		return
	}
	var kept []metav1.OwnerReference
	var dropped []string
	for _, r := range owners {
		if known(kept, r) {
			dropped = append(dropped, string(r.UID))
			continue
		}
		kept = append(kept, r)
	}
	if len(dropped) == 0 {
		return
	}
	o.SetOwnerReferences(kept)
	opt.warn([]string{fmt.Sprintf(".metadata.ownerReferences contains duplicate entries; API server dedups owner references in 1.20+, "+
		"and may reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: %s", strings.Join(dropped, ", "))})
}

func known(owners []metav1.OwnerReference, r metav1.OwnerReference) bool {
	for i := range owners {
		if equality.Semantic.DeepEqual(owners[i], r) {
			return true
		}
	}
	return false
}
