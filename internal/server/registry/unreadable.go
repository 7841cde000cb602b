package registry

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/millrace/millrace/internal/server/resource"
)

// Unreadable returns the errors of the kind's objects that cannot be read, by what follows the kind's prefix in their
// keys: the name, or the namespace, a slash and the name.
func (s *Storage) Unreadable() map[string]error {
	if s.cached == nil {
		return nil
	}
	all := map[string]error{}
	for key, err := range s.cached.AllUnreadable() {
		all[strings.TrimPrefix(key, s.prefix)] = err
	}
	return all
}

var (
	namespaces  = schema.GroupResource{Resource: "namespaces"}
	definitions = schema.GroupResource{Group: "apiextensions.k8s.io", Resource: "customresourcedefinitions"}
)

// mayGo refuses the removal of a namespace while the store has objects that nobody can see: in this namespace, or of a
// definition that cannot be read. They would stay, and be there again in the next namespace of that name.
func (s *Storage) mayGo(o resource.Object) error {
	if s.kind.GroupResource() != namespaces {
		return nil
	}
	var hidden []string
	for _, k := range s.registry.Cache.Kinds() {
		if n := k.UnreadableIn(o.GetName()); n > 0 {
			hidden = append(hidden, fmt.Sprintf("%d %s", n, k.Name()))
		}
		if k.Name() == definitions.String() {
			for _, key := range slices.Sorted(maps.Keys(k.AllUnreadable())) {
				hidden = append(hidden, "the objects of the definition "+strings.TrimPrefix(key, k.Options().Prefix))
			}
		}
	}
	if len(hidden) == 0 {
		return nil
	}
	refusal := apierrors.NewConflict(namespaces, o.GetName(), errors.New("the store has objects that cannot be read and would stay in it: "+
		strings.Join(hidden, ", ")+". Make them readable, or delete what is unreadable with ignoreStoreReadErrorWithClusterBreakingPotential"))
	refusal.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: metav1.CauseType(metav1.StatusReasonStoreReadError), Message: strings.Join(hidden, ", ")}}
	return refusal
}
