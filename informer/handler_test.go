package informer_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/millrace/millrace/informer"
	"github.com/millrace/millrace/informer/informertest"
)

func labelled(name, value string) *corev1.Pod {
	p := pod("a", name)
	p.Labels = map[string]string{"v": value}
	return p
}

func TestABlockedHandlerDelaysNobodyAndIsToldTheOutcomeOnly(t *testing.T) {
	source := informertest.NewSource(labelled("one", "0"))
	withPods(t, source, informer.Options[*corev1.Pod]{}, func(t *testing.T, pods podInformer) {
		release := make(chan struct{})
		var slow []string
		pods.Handle(informer.Handler[*corev1.Pod]{
			Added:   func(p *corev1.Pod, _ bool) { <-release; slow = append(slow, "added "+p.Name) },
			Updated: func(old, new *corev1.Pod) { slow = append(slow, old.Labels["v"]+" to "+new.Labels["v"]) },
			Deleted: func(p *corev1.Pod, _ bool) { slow = append(slow, "deleted "+p.Name) },
		})
		quick := 0
		pods.Handle(informer.Handler[*corev1.Pod]{Changed: func(informer.Key) { quick++ }})
		synctest.Wait()
		for i := range 1500 {
			source.Modify(labelled("one", fmt.Sprint(i+1)))
			synctest.Wait()
			source.Add(labelled("brief", ""))
			synctest.Wait()
			source.Delete(labelled("brief", ""))
			synctest.Wait()
		}
		if quick != 4501 {
			t.Errorf("the quick handler was called %d times, want 4501", quick)
		}
		close(release)
		synctest.Wait()
		expect(t, slow, "added one", "0 to 1500")
	})
}

func TestAPanicIsReportedAndTheHandlerGoesOn(t *testing.T) {
	var reported atomic.Pointer[informer.HandlerPanic]
	options := informer.Options[*corev1.Pod]{OnError: func(err error) {
		var p *informer.HandlerPanic
		if errors.As(err, &p) {
			reported.Store(p)
		}
	}}
	source := informertest.NewSource(pod("a", "one"), pod("a", "two"))
	withPods(t, source, options, func(t *testing.T, pods podInformer) {
		keys := 0
		reg := pods.Handle(informer.Handler[*corev1.Pod]{Name: "faulty",
			Added:   func(p *corev1.Pod, _ bool) { panic("cannot bear " + p.Name) },
			Changed: func(informer.Key) { keys++ },
		})
		if err := reg.Synced(t.Context()); err != nil {
			t.Fatal(err)
		}
		p := reported.Load()
		if p == nil || p.Handler != "faulty" || p.Value != "cannot bear two" || !strings.Contains(string(p.Stack), "handler_test.go") || keys != 2 {
			t.Errorf("reported %v, %d keys", p, keys)
		}
	})
}

func TestAHandlerThatJoinsLateStartsWithWhatIsThere(t *testing.T) {
	source := informertest.NewSource(pod("a", "one"))
	withPods(t, source, informer.Options[*corev1.Pod]{}, func(t *testing.T, pods podInformer) {
		mustSync(t, pods)
		source.Add(pod("a", "two"))
		synctest.Wait()
		var heard []string
		reg := pods.Handle(informer.Handler[*corev1.Pod]{Added: func(p *corev1.Pod, initial bool) { heard = append(heard, fmt.Sprint(p.Name, initial)) }})
		synctest.Wait()
		reg.Close()
		<-reg.Done()
		source.Add(pod("a", "three"))
		synctest.Wait()
		expect(t, heard, "onetrue", "twotrue")
		if err := reg.Synced(t.Context()); err != nil {
			t.Errorf("Synced: %v", err)
		}
	})
}

func TestAnObjectMadeAnewIsDeletedAndAdded(t *testing.T) {
	source := informertest.NewSource(pod("a", "one"))
	withPods(t, source, informer.Options[*corev1.Pod]{}, func(t *testing.T, pods podInformer) {
		hold := make(chan struct{})
		var heard []string
		pods.Handle(informer.Handler[*corev1.Pod]{
			Added: func(p *corev1.Pod, _ bool) {
				heard = append(heard, "added "+string(p.UID[len(p.UID)-1:]))
				<-hold
			},
			Updated: func(_, p *corev1.Pod) { heard = append(heard, "updated") },
			Deleted: func(p *corev1.Pod, unknown bool) {
				heard = append(heard, "deleted "+string(p.UID[len(p.UID)-1:]))
			},
		})
		synctest.Wait()
		source.Add(pod("a", "one"))
		source.Add(pod("a", "one"))
		synctest.Wait()
		close(hold)
		synctest.Wait()
		expect(t, heard, "added 1", "deleted 1", "added 3")
	})
}

func TestAResyncTellsEverythingAgain(t *testing.T) {
	source := informertest.NewSource(pod("a", "one"), pod("a", "two"))
	withPods(t, source, informer.Options[*corev1.Pod]{Resync: time.Hour}, func(t *testing.T, pods podInformer) {
		often, never := 0, 0
		pods.Handle(informer.Handler[*corev1.Pod]{Resync: time.Minute, Updated: func(_, _ *corev1.Pod) { often++ }})
		pods.Handle(informer.Handler[*corev1.Pod]{Resync: -1, Updated: func(_, _ *corev1.Pod) { never++ }})
		time.Sleep(150 * time.Second)
		synctest.Wait()
		if often != 4 || never != 0 {
			t.Errorf("%d updates with and %d without resync, want 4 and 0", often, never)
		}
	})
}

func TestAnInformerStopsWhenTheLastHandlerLeavesIfAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pods := informer.New(informertest.NewSource(pod("a", "one")), informer.Options[*corev1.Pod]{StopWhenUnused: true})
		ended := make(chan error)
		go func() { ended <- pods.Run(t.Context()) }()
		first, second := pods.Handle(informer.Handler[*corev1.Pod]{}), pods.Handle(informer.Handler[*corev1.Pod]{})
		synctest.Wait()
		first.Close()
		first.Close()
		synctest.Wait()
		second.Close()
		if err := <-ended; err != nil {
			t.Errorf("Run: %v", err)
		}
		late := pods.Handle(informer.Handler[*corev1.Pod]{})
		<-late.Done()
		if err := late.Synced(t.Context()); !errors.Is(err, informer.ErrStopped) {
			t.Errorf("Synced of a late handler: %v", err)
		}
		if err := pods.Run(t.Context()); !errors.Is(err, informer.ErrRunning) {
			t.Errorf("second Run: %v", err)
		}
	})
}

func TestRunReturnsWhenTheCallsInProgressHave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pods := informer.New(informertest.NewSource(pod("a", "one")), informer.Options[*corev1.Pod]{})
		var inside atomic.Bool
		pods.Handle(informer.Handler[*corev1.Pod]{Added: func(*corev1.Pod, bool) {
			inside.Store(true)
			time.Sleep(time.Minute)
			inside.Store(false)
		}})
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		if err := pods.Run(ctx); err != nil || inside.Load() {
			t.Errorf("Run: %v; a call is in progress: %v", err, inside.Load())
		}
	})
}

func TestSyncedSaysThatNobodyStartedTheInformer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pods := informer.New(informertest.NewSource[*corev1.Pod](), informer.Options[*corev1.Pod]{Name: "pods"})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := pods.Synced(ctx); err == nil || !strings.Contains(err.Error(), "pods has not synced") || !strings.Contains(err.Error(), "not started") {
			t.Errorf("Synced: %v", err)
		}
	})
}

func TestAProjectionKeepsItsOwnForm(t *testing.T) {
	type placement struct{ Node string }
	synctest.Test(t, func(t *testing.T) {
		bound := pod("a", "one")
		bound.Spec.NodeName = "n1"
		source := informertest.NewSource(bound)
		byNode := informer.NewIndex(func(p placement) []string { return []string{p.Node} })
		placements := informer.Project(source, func(p *corev1.Pod) placement { return placement{p.Spec.NodeName} },
			informer.Options[placement]{Indexes: []*informer.Index[placement]{byNode}})
		var heard []string
		placements.Handle(informer.Handler[placement]{Updated: func(old, new placement) { heard = append(heard, old.Node+" to "+new.Node) }})
		start(t, placements)
		synctest.Wait()
		moved := pod("a", "one")
		moved.Spec.NodeName = "n2"
		source.Modify(moved)
		synctest.Wait()
		for key := range placements.Keys(byNode, "n2") {
			heard = append(heard, key.String())
		}
		expect(t, heard, "n1 to n2", "a/one")
	})
}

func TestAnIndexCanBeAddedAtAnyTime(t *testing.T) {
	source := informertest.NewSource(labelled("one", "x"), labelled("two", "y"))
	withPods(t, source, informer.Options[*corev1.Pod]{}, func(t *testing.T, pods podInformer) {
		mustSync(t, pods)
		byLabel := informer.NewIndex(func(p *corev1.Pod) []string { return []string{p.Labels["v"]} })
		byName := informer.FieldIndex[*corev1.Pod]("metadata.name")
		for range 2 { // the second time they are there already
			pods.AddIndex(byLabel)
			pods.AddIndex(byName)
		}
		source.Modify(labelled("two", "x"))
		source.Add(labelled("three", "x"))
		source.Delete(labelled("one", ""))
		source.Compact()
		source.EndWatches(errors.New("connection reset"))
		time.Sleep(time.Minute)
		synctest.Wait()
		var found []string
		for key := range pods.Keys(byLabel, "x") {
			found = append(found, key.Name)
		}
		for p := range pods.By(byName, "two") {
			found = append(found, p.Name)
		}
		for range pods.By(byLabel, "y") {
			t.Error("something is left under the old value")
		}
		expect(t, found, "three", "two", "two")
	})
}

func TestAnIndexThatDoesNotExistIsAnErrorOfTheProgram(t *testing.T) {
	pods := informer.New(informertest.NewSource(pod("a", "one")), informer.Options[*corev1.Pod]{})
	panics := func(what string, f func()) {
		defer func() {
			if recover() == nil {
				t.Error(what + " did not panic")
			}
		}()
		f()
	}
	panics("an index of a field that does not exist", func() { informer.FieldIndex[*corev1.Pod]("metadata.nome") })
	panics("a read by an index that was not added", func() {
		for range pods.By(informer.FieldIndex[*corev1.Pod]("metadata.name"), "one") {
		}
	})
}

func TestASnapshotDoesNotMove(t *testing.T) {
	source := informertest.NewSource(pod("a", "one"), pod("b", "two"))
	byNamespace := informer.FieldIndex[*corev1.Pod]("metadata.namespace")
	withPods(t, source, informer.Options[*corev1.Pod]{Indexes: []*informer.Index[*corev1.Pod]{byNamespace}}, func(t *testing.T, pods podInformer) {
		mustSync(t, pods)
		before := pods.Snapshot()
		source.Delete(pod("a", "one"))
		synctest.Wait()
		if _, there := before.Get("a", "one"); !there || before.Len() != 2 || pods.Len() != 1 {
			t.Errorf("the snapshot has %d objects, the cache %d", before.Len(), pods.Len())
		}
		found := 0
		for range before.By(byNamespace, "a") {
			found++
		}
		for range before.ListNamespace("a") {
			found++
		}
		for range pods.By(byNamespace, "a") {
			found += 100
		}
		if found != 2 {
			t.Errorf("found %d", found)
		}
	})
}

func TestAFactoryLeavesNothingRunning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		factory := informer.NewFactory(informer.FactoryOptions{})
		source := informertest.NewSource(pod("a", "one"))
		early := informer.Share(factory, source, informer.Options[*corev1.Pod]{})
		factory.Start(t.Context())
		late := informer.Share(factory, source, informer.Options[*corev1.Pod]{LabelSelector: "x=y"})
		if informer.Share(factory, source, informer.Options[*corev1.Pod]{}) != early {
			t.Error("not shared")
		}
		late.Handle(informer.Handler[*corev1.Pod]{})
		if err := factory.Synced(t.Context()); err != nil || early.Len() != 1 || late.Len() != 0 {
			t.Errorf("Synced: %v; %d and %d objects", err, early.Len(), late.Len())
		}
		if err := factory.Shutdown(); err != nil {
			t.Errorf("Shutdown: %v", err)
		}
		// The bubble fails the test if a goroutine is left.
	})
}
