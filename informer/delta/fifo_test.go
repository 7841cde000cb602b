package delta_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"

	"github.com/millrace/millrace/informer"
	"github.com/millrace/millrace/informer/delta"
)

type podFIFO = delta.FIFO[*corev1.Pod]

// drain pops everything and returns a string for each object.
func drain(t *testing.T, fifo *podFIFO) []string {
	t.Helper()
	var all []string
	for fifo.Len() > 0 {
		_, err := fifo.Pop(t.Context(), func(deltas delta.Deltas[*corev1.Pod], initial bool) error {
			line := deltas.Newest().Object.Name + ":"
			for _, d := range deltas {
				line += fmt.Sprintf(" %s", d.Type)
				if d.FinalStateUnknown {
					line += "?"
				}
			}
			all = append(all, line)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return all
}

func expect(t *testing.T, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("got\n\t%s\nwant\n\t%s", strings.Join(got, "\n\t"), strings.Join(want, "\n\t"))
	}
}

func known(pods ...*corev1.Pod) *informer.Store[*corev1.Pod] {
	store := informer.NewStore(informer.StoreOptions[*corev1.Pod]{})
	_ = store.Replace(pods, "1")
	return store
}

func newFIFO(options delta.FIFOOptions[*corev1.Pod]) *podFIFO {
	return delta.NewFIFO(options)
}

func TestChangesOfOneObjectAreOneItemInTheOrderOfFirstChange(t *testing.T) {
	fifo := newFIFO(delta.FIFOOptions[*corev1.Pod]{})
	_ = fifo.Add(pod("a", "one"))
	_ = fifo.Add(pod("a", "two"))
	_ = fifo.Update(pod("a", "one"))
	_ = fifo.Delete(pod("a", "one"))
	expect(t, drain(t, fifo), "one: Added Updated Deleted", "two: Added")
}

func TestTwoDeletionsInARowAreOneAndTheSeenOneCounts(t *testing.T) {
	fifo := newFIFO(delta.FIFOOptions[*corev1.Pod]{KnownObjects: known(pod("a", "one"), pod("a", "two"))})
	_ = fifo.Delete(pod("a", "one"))
	_ = fifo.Replace(nil, "2")
	_ = fifo.Delete(pod("a", "two"))
	expect(t, drain(t, fifo), "one: Deleted", "two: Deleted")
}

func TestAListReportsWhatVanishedFromQueueAndConsumer(t *testing.T) {
	fifo := newFIFO(delta.FIFOOptions[*corev1.Pod]{KnownObjects: known(pod("a", "held"), pod("a", "kept"))})
	_ = fifo.Add(pod("a", "queued"))
	_ = fifo.Replace([]*corev1.Pod{pod("a", "kept")}, "2")
	expect(t, drain(t, fifo), "queued: Added Deleted?", "kept: Replaced", "held: Deleted?")
}

func TestDeletingWhatNobodyKnowsIsNothing(t *testing.T) {
	fifo := newFIFO(delta.FIFOOptions[*corev1.Pod]{})
	_ = fifo.Delete(pod("a", "stranger"))
	expect(t, drain(t, fifo))
}

func TestResyncQueuesWhatIsKnownAndHasNoChanges(t *testing.T) {
	fifo := newFIFO(delta.FIFOOptions[*corev1.Pod]{KnownObjects: known(pod("a", "busy"), pod("a", "idle"))})
	_ = fifo.Update(pod("a", "busy"))
	_ = fifo.Resync()
	expect(t, drain(t, fifo), "busy: Updated", "idle: Sync")
}

func TestTheQueueHasSyncedWhenTheFirstListIsProcessed(t *testing.T) {
	fifo := newFIFO(delta.FIFOOptions[*corev1.Pod]{ListsAreSyncs: true})
	if fifo.HasSynced() {
		t.Error("synced before anything came")
	}
	_ = fifo.Replace([]*corev1.Pod{pod("a", "one"), pod("a", "two")}, "2")
	var initial []bool
	for range 2 {
		if fifo.HasSynced() {
			t.Error("synced with part of the list in the queue")
		}
		_, _ = fifo.Pop(t.Context(), func(_ delta.Deltas[*corev1.Pod], first bool) error {
			initial = append(initial, first)
			return nil
		})
	}
	if !fifo.HasSynced() || !slices.Equal(initial, []bool{true, true}) {
		t.Errorf("synced: %v, initial: %v", fifo.HasSynced(), initial)
	}
}

func TestTheTransformSeesEachObjectOnce(t *testing.T) {
	times := map[string]int{}
	fifo := newFIFO(delta.FIFOOptions[*corev1.Pod]{KnownObjects: known(pod("a", "held")),
		Transform: func(p *corev1.Pod) (*corev1.Pod, error) {
			times[p.Name]++
			return p, nil
		}})
	_ = fifo.Replace([]*corev1.Pod{pod("a", "listed")}, "2")
	_ = fifo.Resync()
	if times["listed"] != 1 || times["held"] != 0 {
		t.Errorf("transformed: %v", times)
	}
}

func TestAFailedItemGoesBackBeforeNewerChanges(t *testing.T) {
	fifo := newFIFO(delta.FIFOOptions[*corev1.Pod]{})
	_ = fifo.Add(pod("a", "one"))
	_, err := fifo.Pop(t.Context(), func(delta.Deltas[*corev1.Pod], bool) error { return fmt.Errorf("no: %w", delta.ErrRequeue) })
	if !errors.Is(err, delta.ErrRequeue) {
		t.Errorf("Pop: %v", err)
	}
	_ = fifo.Update(pod("a", "one"))
	expect(t, drain(t, fifo), "one: Added Updated")
}

func TestPopWaitsUntilThereIsSomethingOrTheQueueIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fifo := newFIFO(delta.FIFOOptions[*corev1.Pod]{})
		popped := make(chan error, 3)
		ctx, cancel := context.WithCancel(t.Context())
		pop := func() {
			_, err := fifo.Pop(ctx, func(delta.Deltas[*corev1.Pod], bool) error { return nil })
			popped <- err
		}
		go pop()
		synctest.Wait()
		_ = fifo.Add(pod("a", "one"))
		if err := <-popped; err != nil {
			t.Errorf("Pop: %v", err)
		}
		go pop()
		synctest.Wait()
		fifo.Close()
		if err := <-popped; !errors.Is(err, delta.ErrClosed) {
			t.Errorf("Pop of a closed queue: %v", err)
		}
		cancel()
		if err := fifo.Add(pod("a", "late")); !errors.Is(err, delta.ErrClosed) {
			t.Errorf("Add to a closed queue: %v", err)
		}
	})
}
