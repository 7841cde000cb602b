package informer_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/millrace/millrace/informer"
)

// runFor runs something until the test's function returns.
func runFor(t *testing.T, run func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
}

func TestAMirrorFollowsItsSource(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := informer.NewFakeSource(pod("a", "one"))
		var heard []string
		store, controller := informer.Mirror(source, informer.Handler[*corev1.Pod]{
			Added:   func(p *corev1.Pod, initial bool) { heard = append(heard, fmt.Sprint("added ", p.Name, " ", initial)) },
			Updated: func(_, p *corev1.Pod) { heard = append(heard, "updated "+p.Name) },
			Deleted: func(p *corev1.Pod, unknown bool) { heard = append(heard, fmt.Sprint("deleted ", p.Name, " ", unknown)) },
		}, informer.Options[*corev1.Pod]{})
		runFor(t, controller.Run)
		synctest.Wait()
		if !controller.HasSynced() {
			t.Error("has not synced")
		}
		source.Add(pod("a", "two"))
		synctest.Wait()
		source.Modify(pod("a", "two"))
		synctest.Wait()
		source.Delete(pod("a", "one"))
		synctest.Wait()
		expect(t, heard, "added one true", "added two false", "updated two", "deleted one false")
		if keys := slices.Collect(store.Keys()); len(keys) != 1 || keys[0].Name != "two" {
			t.Errorf("the store has %v", keys)
		}
		if controller.LastResourceVersion() != source.ResourceVersion() {
			t.Errorf("the controller is at %s, the source at %s", controller.LastResourceVersion(), source.ResourceVersion())
		}
	})
}

func TestAFailedItemIsProcessedAgainIfAskedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		attempts := 0
		var reported []error
		controller := informer.NewController(informer.ControllerConfig[*corev1.Pod]{
			Source: informer.NewFakeSource(pod("a", "one")), Queue: newFIFO(informer.DeltaFIFOOptions[*corev1.Pod]{}),
			RetryOnError: true,
			Options:      informer.Options[*corev1.Pod]{OnError: func(err error) { reported = append(reported, err) }},
			Process: func(informer.Deltas[*corev1.Pod], bool) error {
				if attempts++; attempts < 3 {
					return errors.New("not yet")
				}
				return nil
			},
		})
		runFor(t, controller.Run)
		synctest.Wait()
		if attempts != 3 || len(reported) != 2 {
			t.Errorf("%d attempts, %d reported: %v", attempts, len(reported), reported)
		}
	})
}

func TestAnUndeltaStorePushesTheWholeSetOnEachChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := informer.NewFakeSource(pod("a", "one"), pod("a", "two"))
		var pushes []string
		store := informer.NewUndeltaStore(func(pods []*corev1.Pod) {
			line := ""
			for _, p := range pods {
				line += " " + p.Name
			}
			pushes = append(pushes, line)
		}, informer.StoreOptions[*corev1.Pod]{})
		runFor(t, informer.NewReflector(source, store, informer.Options[*corev1.Pod]{}).Run)
		synctest.Wait()
		source.Add(pod("a", "three"))
		synctest.Wait()
		source.Delete(pod("a", "two"))
		synctest.Wait()
		expect(t, pushes, " one two", " one three two", " one three")
	})
}

func TestAReflectorResyncsItsTarget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := known(pod("a", "one"))
		fifo := newFIFO(informer.DeltaFIFOOptions[*corev1.Pod]{Known: store})
		runFor(t, informer.NewReflector(informer.NewFakeSource(pod("a", "one")), fifo, informer.Options[*corev1.Pod]{Resync: time.Minute}).Run)
		synctest.Wait()
		expect(t, drain(t, fifo), "one: Replaced")
		time.Sleep(61 * time.Second)
		synctest.Wait()
		expect(t, drain(t, fifo), "one: Sync")
	})
}

func TestAStoreFindsByIndexAndReplacesAsAWhole(t *testing.T) {
	store := informer.NewStore(informer.StoreOptions[*corev1.Pod]{Indexes: map[string]func(*corev1.Pod) []string{
		"node": func(p *corev1.Pod) []string { return []string{p.Spec.NodeName} }}})
	on := func(node, name string) *corev1.Pod {
		p := pod("a", name)
		p.Spec.NodeName = node
		return p
	}
	_ = store.Replace([]*corev1.Pod{on("n1", "one"), on("n2", "two"), on("n1", "three")}, "5")
	find := func(node string) []string {
		var found []string
		for p := range store.By("node", node) {
			found = append(found, p.Name)
		}
		return found
	}
	expect(t, find("n1"), "one", "three")
	_ = store.Update(on("n2", "one"))
	expect(t, find("n1"), "three")
	expect(t, find("n2"), "one", "two")
	expect(t, slices.Collect(store.Values("node")), "n1", "n2")
	if err := store.AddIndex("name", func(p *corev1.Pod) []string { return []string{p.Name} }); err != nil {
		t.Fatal(err)
	}
	if store.AddIndex("name", nil) == nil {
		t.Error("an index of the same name was added")
	}
	all := store.List()
	_ = store.Delete(on("", "one"))
	_ = store.Replace(nil, "6")
	if store.Len() != 0 || len(find("n2")) != 0 || len(slices.Collect(all)) != 0 {
		t.Error("something is left")
	}
}
