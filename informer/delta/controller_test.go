package delta_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace/millrace/informer"
	"github.com/millrace/millrace/informer/delta"
	"github.com/millrace/millrace/informer/informertest"
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
		source := informertest.NewSource(pod("a", "one"))
		var heard []string
		store, controller := delta.Mirror(source, informer.Handler[*corev1.Pod]{
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
		controller := delta.NewController(delta.Config[*corev1.Pod]{
			Source: informertest.NewSource(pod("a", "one")), Queue: newFIFO(delta.FIFOOptions[*corev1.Pod]{}),
			RetryOnError: true,
			Options:      informer.Options[*corev1.Pod]{OnError: func(err error) { reported = append(reported, err) }},
			Process: func(delta.Deltas[*corev1.Pod], bool) error {
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
		source := informertest.NewSource(pod("a", "one"), pod("a", "two"))
		var pushes []string
		store := delta.NewUndeltaStore(func(pods []*corev1.Pod) {
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
		fifo := newFIFO(delta.FIFOOptions[*corev1.Pod]{KnownObjects: store})
		runFor(t, informer.NewReflector(informertest.NewSource(pod("a", "one")), fifo, informer.Options[*corev1.Pod]{Resync: time.Minute}).Run)
		synctest.Wait()
		expect(t, drain(t, fifo), "one: Replaced")
		time.Sleep(61 * time.Second)
		synctest.Wait()
		expect(t, drain(t, fifo), "one: Sync")
	})
}

func pod(namespace, name string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
}
