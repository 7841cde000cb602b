package resource_test

import (
	"slices"
	"testing"

	"github.com/millrace/millrace/internal/server/resource"
	"github.com/millrace/millrace/internal/server/resource/core"
)

func TestVerbsDependOnThePlaceOfAPath(t *testing.T) {
	pods := core.Pods()
	for _, at := range []struct {
		place resource.Place
		want  []string
	}{
		{resource.AllNamespaces, []string{"list", "watch"}},
		{resource.Collection, []string{"create", "deletecollection", "list", "watch"}},
		{resource.OneObject, []string{"delete", "get", "patch", "update", "watch"}},
	} {
		got := slices.DeleteFunc(append(resource.AllVerbs(), "options"), func(v string) bool { return !pods.OffersAt(at.place, v) })
		if !slices.Equal(got, at.want) {
			t.Errorf("place %d offers %v, not %v", at.place, got, at.want)
		}
	}
	if core.Namespaces().OffersAt(resource.Collection, "deletecollection") {
		t.Error("all namespaces can be deleted at once")
	}
}

func TestSubresourcesAreViewsScaleAndActions(t *testing.T) {
	var got []string
	for _, s := range core.Pods().Subresources() {
		got = append(got, s.Name)
		again, ok := core.Pods().Subresource(s.Name)
		if !ok || !slices.Equal(again.Verbs, s.Verbs) || (again.View == nil) != (s.View == nil) || (again.Action == nil) != (s.Action == nil) {
			t.Errorf("%s is found as %+v, and listed as %+v", s.Name, again, s)
		}
	}
	want := []string{"ephemeralcontainers", "resize", "status", "binding", "eviction", "log", "exec", "attach", "portforward", "proxy"}
	if !slices.Equal(got, want) {
		t.Errorf("pods have %v, not %v", got, want)
	}
	if _, ok := core.Pods().Subresource("scale"); ok {
		t.Error("a pod has a scale")
	}
	scale, ok := core.ReplicationControllers().Subresource("scale")
	if !ok || !scale.Offers("patch") || scale.Offers("create") {
		t.Errorf("the scale of a replication controller is %+v", scale)
	}
	if got := scale.KindAs(core.ReplicationControllers().Faces[0]); got != resource.ScaleKind {
		t.Errorf("it is a %v", got)
	}
}

func TestMethodsOfConnections(t *testing.T) {
	for name, want := range map[string]int{"log": 2, "exec": 2, "proxy": 7} {
		s, _ := core.Pods().Subresource(name)
		if got := s.Action.Methods(); len(got) != want || got[0] != "GET" {
			t.Errorf("%s answers %v", name, got)
		}
	}
	exec, _ := core.Pods().Subresource("exec")
	if slices.Contains(exec.Action.Methods(), "HEAD") {
		t.Error("a HEAD begins a session")
	}
}
