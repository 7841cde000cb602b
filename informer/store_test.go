package informer_test

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/millrace/millrace/informer"
)

func expect(t *testing.T, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("got\n\t%s\nwant\n\t%s", strings.Join(got, "\n\t"), strings.Join(want, "\n\t"))
	}
}

func TestAStoreFindsByIndexAndReplacesAsAWhole(t *testing.T) {
	byNode := informer.NewIndex(func(p *corev1.Pod) []string { return []string{p.Spec.NodeName} })
	store := informer.NewStore(informer.StoreOptions[*corev1.Pod]{Indexes: []*informer.Index[*corev1.Pod]{byNode}})
	on := func(node, name string) *corev1.Pod {
		p := pod("a", name)
		p.Spec.NodeName = node
		return p
	}
	_ = store.Replace([]*corev1.Pod{on("n1", "one"), on("n2", "two"), on("n1", "three")}, "5")
	find := func(node string) []string {
		var found []string
		for p := range store.By(byNode, node) {
			found = append(found, p.Name)
		}
		return found
	}
	expect(t, find("n1"), "one", "three")
	_ = store.Update(on("n2", "one"))
	expect(t, find("n1"), "three")
	expect(t, find("n2"), "one", "two")
	expect(t, slices.Collect(store.Values(byNode)), "n1", "n2")
	byName := informer.FieldIndex[*corev1.Pod]("metadata.name")
	store.AddIndex(byName)
	store.AddIndex(byName) // the store has it already
	expect(t, slices.Collect(store.Values(byName)), "one", "three", "two")
	all := store.List()
	_ = store.Delete(on("", "one"))
	_ = store.Replace(nil, "6")
	if store.Len() != 0 || len(find("n2")) != 0 || len(slices.Collect(all)) != 0 {
		t.Error("something is left")
	}
}
