package aggregation

import (
	"bytes"
	"maps"
	"net/http"
	"slices"
	"strings"

	discoveryv2 "k8s.io/api/apidiscovery/v2"
	"k8s.io/apimachinery/pkg/runtime/schema"
	v1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"github.com/millrace/millrace/internal/server/apiserver"
	"github.com/millrace/millrace/internal/server/resource"
)

// snapshot is who answers for what, at one moment. It never changes.
type snapshot struct {
	version   int
	handlers  map[schema.GroupVersion]http.Handler
	available map[schema.GroupVersion]bool
	groups    []apiserver.DelegatedGroup
	remotes   map[string]*remote
}

// snapshotOf compiles the APIServices of other servers. Remotes of before that are still the same go on.
func (a *Aggregator) snapshotOf(before *snapshot, all map[string]*v1.APIService) *snapshot {
	s := &snapshot{
		handlers: map[schema.GroupVersion]http.Handler{}, available: map[schema.GroupVersion]bool{}, remotes: map[string]*remote{},
	}
	if before != nil {
		s.version = before.version + 1
	}
	for gv, b := range a.o.Backends {
		s.handlers[gv], s.available[gv] = b, true
		s.groups = append(s.groups, group(gv, backendPriority(b)))
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		service := all[name]
		gv := groupVersion(service)
		r := a.remoteOf(before, service)
		s.remotes[name], s.handlers[gv] = r, r
		s.available[gv] = r.available
		s.groups = slices.DeleteFunc(s.groups, func(g apiserver.DelegatedGroup) bool { return g.GroupVersion == gv })
		s.groups = append(s.groups, group(gv, resource.Priority{Group: service.Spec.GroupPriorityMinimum, Version: service.Spec.VersionPriority}))
	}
	slices.SortFunc(s.groups, func(a, b apiserver.DelegatedGroup) int { return strings.Compare(a.String(), b.String()) })
	return s
}

func group(gv schema.GroupVersion, p resource.Priority) apiserver.DelegatedGroup {
	return apiserver.DelegatedGroup{GroupVersion: gv, Priority: p, Discovery: discoveryv2.APIVersionDiscovery{Version: gv.Version, Freshness: discoveryv2.DiscoveryFreshnessCurrent}}
}

func backendPriority(b Backend) resource.Priority {
	if b.Priority == (resource.Priority{}) {
		return resource.DefinedPriority
	}
	return b.Priority
}

func groupVersion(s *v1.APIService) schema.GroupVersion {
	return schema.GroupVersion{Group: s.Spec.Group, Version: s.Spec.Version}
}

// sameTarget tells whether two specs lead to the same server, by the same proof.
func sameTarget(a, b *v1.APIServiceSpec) bool {
	return a.Service.Namespace == b.Service.Namespace && a.Service.Name == b.Service.Name && *a.Service.Port == *b.Service.Port &&
		a.InsecureSkipTLSVerify == b.InsecureSkipTLSVerify && bytes.Equal(a.CABundle, b.CABundle)
}

// isAvailable is what the condition of an APIService says.
func isAvailable(s *v1.APIService) bool {
	c := conditionOf(s)
	return c != nil && c.Status == v1.ConditionTrue
}

func conditionOf(s *v1.APIService) *v1.APIServiceCondition {
	for i := range s.Status.Conditions {
		if s.Status.Conditions[i].Type == v1.Available {
			return &s.Status.Conditions[i]
		}
	}
	return nil
}
