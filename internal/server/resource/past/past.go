package past

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/millrace/millrace/internal/server/resource"
)

// Complete adds to the kinds the versions in which they may be stored.
func Complete(kinds []*resource.Kind) {
	byName := map[schema.GroupResource]*resource.Kind{}
	for _, k := range kinds {
		byName[k.GroupResource()] = k
	}
	for _, add := range []func(map[schema.GroupResource]*resource.Kind){
		admissionPolicies, admissionWebhooks, apps, batch, certificates, coordination, discovery, extensions, flows, networking, nodes, policy, roles, scheduling, storage, services,
	} {
		add(byName)
	}
	for name, paths := range marked {
		byName[schema.ParseGroupResource(name)].Mark(paths...)
	}
	resource.OnRead(byName[schema.GroupResource{Resource: "services"}], readService)
	resource.OnRead(byName[schema.GroupResource{Resource: "secrets"}], readSecret)
}

// add adds forms to a kind, which must be there.
func add[P resource.Object](kinds map[schema.GroupResource]*resource.Kind, group, name string, forms ...resource.Form[P]) {
	k := kinds[schema.GroupResource{Group: group, Resource: name}]
	if k == nil {
		panic(fmt.Sprintf("past: there is no kind %s in group %q", name, group))
	}
	resource.AddForms(k, forms...)
}

// alike is a version of a kind whose fields have the same names as the kind's. What is different, and the defaults of
// the version that are not the kind's, are set by more.
func alike[P resource.Object, T any, Q interface {
	*T
	runtime.Object
}](gv schema.GroupVersion, kind string, more ...func(now P, old Q)) resource.Form[P] {
	same := resource.Alike[P, T, Q](gv.WithKind(kind))
	return resource.Form[P]{
		GroupVersionKind: gv.WithKind(kind),
		New:              same.New,
		To: func(o runtime.Object) (P, error) {
			now := same.To(o)
			for _, f := range more {
				f(now, o.(Q))
			}
			return now, nil
		},
	}
}

// missing sets a value that is not there.
func missing[T any](p **T, v T) {
	if *p == nil {
		*p = &v
	}
}
