package slice_test

import (
	"testing"

	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/millrace/millrace/internal/controllers/internal/slice"
)

func named(name string, addresses ...string) *discoveryv1.EndpointSlice {
	s := &discoveryv1.EndpointSlice{}
	s.Name = name
	for _, a := range addresses {
		s.Endpoints = append(s.Endpoints, discoveryv1.Endpoint{Addresses: []string{a}})
	}
	return s
}

func TestEndpointsThatMoveAreNeitherAddedNorRemoved(t *testing.T) {
	existing := []*discoveryv1.EndpointSlice{named("kept", "1"), named("changed", "2", "3", "4"), named("deleted", "5", "6")}
	changed := named("changed", "2", "5", "7")
	changed.Endpoints[0].Hostname = new(string)
	p := slice.Plan{Create: []*discoveryv1.EndpointSlice{named("", "4", "8", "9")}, Update: []*discoveryv1.EndpointSlice{changed}, Delete: existing[2:]}
	got := p.Sync(existing)
	want := slice.Sync{Slices: 3, Added: 3, Updated: 1, Removed: 2, Created: 1, Changed: 1, Deleted: 1}
	if got != want {
		t.Errorf("the plan does %+v, want %+v", got, want)
	}
	p = slice.Plan{}
	if got, want := p.Sync(existing), (slice.Sync{Slices: 3}); got != want {
		t.Errorf("an empty plan does %+v, want %+v", got, want)
	}
}
