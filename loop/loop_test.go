package loop_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/millrace/millrace/informer"
	"github.com/millrace/millrace/informer/informertest"
	"github.com/millrace/millrace/loop"
)

var replicaSetKind = schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "ReplicaSet"}

func pod(name string, change ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: uidOf(name)}}
	for _, c := range change {
		c(p)
	}
	return p
}

func ownedBy(apiVersion, kind, name string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		controls := true
		p.OwnerReferences = []metav1.OwnerReference{
			{APIVersion: apiVersion, Kind: kind, Name: name, UID: uidOf(name), Controller: &controls},
		}
	}
}

// calls are the keys that a loop was asked to sync.
type calls struct {
	mu   sync.Mutex
	keys []string
}

func (c *calls) sync(_ context.Context, key loop.Key) (loop.Result, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.keys = append(c.keys, key.Name)
	return loop.Result{}, nil
}

// take returns the keys so far, sorted, and clears the list.
func (c *calls) take() []string {
	synctest.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	keys := c.keys
	c.keys = nil
	slices.Sort(keys)
	return keys
}

func (c *calls) want(t *testing.T, keys ...string) {
	t.Helper()
	if got := c.take(); !slices.Equal(got, keys) {
		t.Errorf("synced %q, want %q", got, keys)
	}
}

// background runs r until the test calls the returned function, which waits for its end.
func background(t *testing.T, r loop.Runner) (stop func() error) {
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	return func() error {
		cancel()
		return <-ended
	}
}

// running runs an informer and what uses it.
func running(t *testing.T, runners ...loop.Runner) (stop func() error) {
	return background(t, loop.Join(runners...))
}

func TestSelfOwnedMappedAndChangesWakeTheRightKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := informertest.NewSource(
			pod("a", ownedBy("apps/v1", "ReplicaSet", "web")),
			pod("b", ownedBy("apps/v1beta9", "ReplicaSet", "db")),
			pod("c", ownedBy("other/v1", "ReplicaSet", "stranger")),
			pod("d", ownedBy("apps/v1", "StatefulSet", "stranger")),
			pod("e"),
		)
		pods := informer.New(source, informer.Options[*corev1.Pod]{})
		var self, owned, mapped, changed calls
		make := func(c *calls, w loop.Watch) *loop.Loop {
			return &loop.Loop{Name: "test", Sync: c.sync, Watches: []loop.Watch{w}}
		}
		stop := running(t, pods,
			make(&self, loop.Self(pods)),
			make(&owned, loop.Owned(pods, replicaSetKind)),
			make(&mapped, loop.Mapped(pods, func(p *corev1.Pod) []loop.Key { return []loop.Key{{Name: "node-" + p.Spec.NodeName}} })),
			make(&changed, loop.Changes(pods, func(before, after *corev1.Pod) []loop.Key {
				switch {
				case before == nil:
					return []loop.Key{{Name: "+" + after.Name}}
				case after == nil:
					return []loop.Key{{Name: "-" + before.Name}}
				}
				return []loop.Key{{Name: before.Spec.NodeName + ">" + after.Spec.NodeName}}
			})),
		)
		self.want(t, "a", "b", "c", "d", "e")
		owned.want(t, "db", "web")
		mapped.want(t, "node-")
		changed.want(t, "+a", "+b", "+c", "+d", "+e")

		source.Modify(pod("a", ownedBy("apps/v1", "ReplicaSet", "db"), func(p *corev1.Pod) { p.Spec.NodeName = "n1" }))
		self.want(t, "a")
		owned.want(t, "db", "web")
		mapped.want(t, "node-", "node-n1")
		changed.want(t, ">n1")

		source.Delete(pod("a"))
		self.want(t, "a")
		owned.want(t, "db")
		mapped.want(t, "node-n1")
		changed.want(t, "-a")
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

func TestPrimedNothingIsSyncedBeforeEveryCacheIsFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pods := informer.New(informertest.NewSource(pod("a")), informer.Options[*corev1.Pod]{})
		nodes := informer.New(informertest.NewSource[*corev1.Node](), informer.Options[*corev1.Node]{})
		var log bytes.Buffer
		clients := &loop.Clients{Log: slog.New(slog.NewTextHandler(&log, nil))}
		var synced calls
		stop := running(t, pods, &loop.Loop{
			Name: "test", Clients: clients, Sync: synced.sync, Start: []loop.Key{{Name: "once"}},
			Watches: []loop.Watch{loop.Self(pods), loop.Reads(nodes)},
		})
		time.Sleep(15 * time.Second)
		synced.want(t)
		if !strings.Contains(log.String(), "loop is waiting for a cache") {
			t.Errorf("the log does not say what is waited for: %q", log.String())
		}
		stopNodes := background(t, nodes)
		time.Sleep(15 * time.Second)
		synced.want(t, "a", "once")
		stop()
		stopNodes()
	})
}

func TestALoopThatWaitsForACacheEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes := informer.New(informertest.NewSource[*corev1.Node](), informer.Options[*corev1.Node]{})
		stop := background(t, &loop.Loop{Sync: new(calls).sync, Watches: []loop.Watch{loop.Reads(nodes)}})
		synctest.Wait()
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

// outcomes runs a loop with one key whose Sync returns the errors in turn and then nil. It returns when Sync was
// called, and the log.
func outcomes(t *testing.T, errs ...error) (at []time.Duration, log string) {
	synctest.Test(t, func(t *testing.T) {
		var buffer bytes.Buffer
		start := time.Now()
		stop := background(t, &loop.Loop{
			Name:    "test",
			Clients: &loop.Clients{Log: slog.New(slog.NewTextHandler(&buffer, nil))},
			Start:   []loop.Key{{Name: "key"}},
			Sync: func(context.Context, loop.Key) (loop.Result, error) {
				at = append(at, time.Since(start))
				if len(at) > len(errs) {
					return loop.Result{}, nil
				}
				return loop.Result{}, errs[len(at)-1]
			},
		})
		time.Sleep(time.Hour)
		stop()
		log = buffer.String()
	})
	return at, log
}

func TestErrorsAreLoggedAndRetriedWithGrowingDelays(t *testing.T) {
	oops := errors.New("oops")
	at, log := outcomes(t, oops, oops, oops)
	if want := []time.Duration{0, 5e6, 15e6, 35e6}; !slices.Equal(at, want) {
		t.Errorf("called at %v, want %v", at, want)
	}
	if n := strings.Count(log, "level=WARN msg=\"sync failed\""); n != 1 || strings.Contains(log, "level=ERROR") {
		t.Errorf("%d warnings logged, want one for the key, and no error:\n%s", n, log)
	}
}

func TestAPersistentFailureIsLoggedAsAnError(t *testing.T) {
	errs := make([]error, 12)
	for i := range errs {
		errs[i] = errors.New("oops")
	}
	_, log := outcomes(t, errs...)
	if n := strings.Count(log, "level=ERROR msg=\"sync failed\""); n != 2 {
		t.Errorf("%d errors logged, want 2:\n%s", n, log)
	}
}

func TestAKeyThatFailsAgainAfterASuccessIsWarnedOfAgain(t *testing.T) {
	oops := errors.New("oops")
	var buffer bytes.Buffer
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		l := &loop.Loop{
			Name: "test", Clients: &loop.Clients{Log: slog.New(slog.NewTextHandler(&buffer, nil))}, Start: []loop.Key{{Name: "key"}},
			Sync: func(context.Context, loop.Key) (loop.Result, error) {
				if calls++; calls == 3 {
					return loop.Result{After: time.Second}, nil
				}
				if calls > 5 {
					return loop.Result{}, nil
				}
				return loop.Result{}, oops
			},
		}
		stop := background(t, l)
		time.Sleep(time.Hour)
		stop()
	})
	if n := strings.Count(buffer.String(), "level=WARN msg=\"sync failed\""); n != 2 {
		t.Errorf("%d warnings logged, want one for each series of failures:\n%s", n, &buffer)
	}
}

func TestManyFailuresInAShortTimeAreNoErrorYet(t *testing.T) {
	var buffer bytes.Buffer
	synctest.Test(t, func(t *testing.T) {
		l := &loop.Loop{
			Name: "test", Clients: &loop.Clients{Log: slog.New(slog.NewTextHandler(&buffer, nil))},
			Sync: func(context.Context, loop.Key) (loop.Result, error) {
				return loop.Result{}, errors.New("exceeded quota")
			},
		}
		stop := background(t, l)
		for range 30 { // the key is woken by other changes as well
			l.Add(loop.Key{Name: "key"})
			time.Sleep(10 * time.Millisecond)
		}
		stop()
	})
	if log := buffer.String(); strings.Count(log, "level=WARN") != 1 || strings.Contains(log, "level=ERROR") {
		t.Errorf("want one warning, and no error:\n%s", log)
	}
}

func TestAFailureInsideTheServerIsLoggedOnlyIfItGoesOn(t *testing.T) {
	inside := apierrors.NewInternalError(errors.New("failed calling webhook"))
	if at, log := outcomes(t, inside, inside); len(at) != 3 || strings.Contains(log, "sync failed") {
		t.Errorf("called at %v with log %q", at, log)
	}
	errs := make([]error, 11)
	for i := range errs {
		errs[i] = inside
	}
	if _, log := outcomes(t, errs...); strings.Count(log, "level=ERROR") != 1 {
		t.Errorf("want one error:\n%s", log)
	}
}

func TestAnUnreachableOrBusyServerIsNotLoggedAsAnError(t *testing.T) {
	for _, err := range []error{
		apierrors.NewServiceUnavailable("starting"), apierrors.NewTooManyRequests("busy", 1),
		fmt.Errorf("list: %w", apierrors.NewTimeoutError("slow", 1)), apierrors.NewServerTimeout(schema.GroupResource{}, "get", 1),
	} {
		if at, log := outcomes(t, err); len(at) != 2 || strings.Contains(log, "sync failed") {
			t.Errorf("called at %v with log %q", at, log)
		}
	}
}

func TestConflictsAreRetriedQuietly(t *testing.T) {
	at, log := outcomes(t, apierrors.NewConflict(schema.GroupResource{Resource: "pods"}, "a", errors.New("old")))
	if len(at) != 2 || strings.Contains(log, "sync failed") {
		t.Errorf("called at %v with log %q", at, log)
	}
}

func TestThatSomethingIsGoneIsLoggedOnlyIfItGoesOn(t *testing.T) {
	gone := fmt.Errorf("write status: %w", apierrors.NewNotFound(schema.GroupResource{Resource: "pods"}, "a"))
	conflict := apierrors.NewConflict(schema.GroupResource{Resource: "pods"}, "a", errors.New("old"))
	if at, log := outcomes(t, conflict, gone, gone); len(at) != 4 || strings.Contains(log, "sync failed") {
		t.Errorf("called at %v with log %q", at, log)
	}
	if at, log := outcomes(t, gone, gone, gone, gone); len(at) != 5 || strings.Count(log, "level=WARN") != 1 {
		t.Errorf("called at %v with log %q", at, log)
	}
}

func TestErrBehindIsRetriedSoonAndSilently(t *testing.T) {
	at, log := outcomes(t, loop.ErrBehind, loop.ErrBehind)
	if len(at) != 3 || at[2] > time.Second || strings.Contains(log, "sync failed") {
		t.Errorf("called at %v with log %q", at, log)
	}
}

func TestTerminalErrorsAreLoggedOnceAndNotRetried(t *testing.T) {
	at, log := outcomes(t, loop.Terminal(errors.New("hopeless")))
	if len(at) != 1 || strings.Count(log, "level=ERROR") != 1 || strings.Count(log, "hopeless") != 1 {
		t.Errorf("called at %v with log %q", at, log)
	}
}

func TestRefusalsInATerminatingNamespaceAreNotRetried(t *testing.T) {
	refused := apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "a", errors.New("namespace is being terminated"))
	refused.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	at, log := outcomes(t, refused)
	if len(at) != 1 || strings.Contains(log, "sync failed") {
		t.Errorf("called at %v with log %q", at, log)
	}
}

func TestContainedAPanicOfOneKeyHarmsNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var synced calls
		stop := background(t, &loop.Loop{
			Start: []loop.Key{{Name: "bad"}, {Name: "good"}},
			Sync: func(ctx context.Context, key loop.Key) (loop.Result, error) {
				result, err := synced.sync(ctx, key)
				if len(synced.keys) == 1 {
					panic("first")
				}
				return result, err
			},
		})
		time.Sleep(time.Second)
		synced.want(t, "bad", "bad", "good")
		stop()
	})
}

func TestAResultAsksForAnotherCallLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		count := 0
		stop := background(t, &loop.Loop{
			Start: []loop.Key{{Name: "key"}},
			Sync: func(context.Context, loop.Key) (loop.Result, error) {
				count++
				return loop.Result{After: time.Minute}, nil
			},
		})
		time.Sleep(10*time.Minute + time.Second)
		stop()
		if count != 11 {
			t.Errorf("called %d times in ten minutes, want 11", count)
		}
	})
}

func TestRunReturnsAfterTheCurrentSyncAndKeepsItsKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		starts, ends := 0, 0
		l := &loop.Loop{Sync: func(ctx context.Context, key loop.Key) (loop.Result, error) {
			starts++
			if starts == 1 {
				<-ctx.Done()
				time.Sleep(time.Minute)
				ends++
				return loop.Result{}, ctx.Err()
			}
			ends++
			return loop.Result{}, nil
		}}
		l.Add(loop.Key{Name: "key"})
		stop := background(t, l)
		synctest.Wait()
		if err := stop(); err != nil || starts != 1 || ends != 1 {
			t.Fatalf("Run ended with %v, %d syncs begun, %d ended", err, starts, ends)
		}
		stop = background(t, l)
		synctest.Wait()
		if stop(); ends != 2 {
			t.Fatal("the interrupted key was lost")
		}
	})
}
