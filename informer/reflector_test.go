package informer_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/millrace/millrace/informer"
	"github.com/millrace/millrace/informer/informertest"
	"github.com/millrace/millrace/watch"
)

type podInformer = *informer.Shared[*corev1.Pod]

// withPods runs a test in a synctest bubble, with an informer for a source.
func withPods(t *testing.T, source informer.Source[*corev1.Pod], options informer.Options[*corev1.Pod], test func(t *testing.T, pods podInformer)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		pods := informer.New(source, options)
		start(t, pods)
		test(t, pods)
	})
}

func mustSync(t *testing.T, pods podInformer) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	if err := pods.Synced(ctx); err != nil {
		t.Fatal(err)
	}
}

func names(pods podInformer) string {
	var all []string
	for pod := range pods.List() {
		all = append(all, pod.Name)
	}
	return strings.Join(all, " ")
}

func TestTheFirstListIsStreamedWhereTheServerCan(t *testing.T) {
	source := informertest.NewSource(pod("a", "one"), pod("b", "two"))
	withPods(t, source, informer.Options[*corev1.Pod]{}, func(t *testing.T, pods podInformer) {
		mustSync(t, pods)
		if got := names(pods); got != "one two" {
			t.Errorf("the cache has %q", got)
		}
		if n := len(source.Requests("list")); n != 0 {
			t.Errorf("%d lists were asked for", n)
		}
		watches := source.Requests("watch")
		if len(watches) != 1 || watches[0].ResourceVersionMatch != metav1.ResourceVersionMatchNotOlderThan || !watches[0].AllowWatchBookmarks {
			t.Errorf("watches: %+v", watches)
		}
	})
}

func TestAServerThatRefusesToStreamIsReadInPages(t *testing.T) {
	source := informertest.NewSource[*corev1.Pod]()
	for i := range 25 {
		source.Add(pod("a", fmt.Sprintf("p%02d", i)))
	}
	source.RefuseStreaming = true
	withPods(t, source, informer.Options[*corev1.Pod]{PageSize: 10}, func(t *testing.T, pods podInformer) {
		mustSync(t, pods)
		if pods.Len() != 25 || len(source.Requests("list")) != 3 {
			t.Errorf("%d objects in %d pages, want 25 in 3", pods.Len(), len(source.Requests("list")))
		}
		source.Compact()
		source.Add(pod("a", "late"))
		source.Compact()
		source.EndWatches(io.ErrUnexpectedEOF)
		time.Sleep(time.Minute)
		var asked []string
		for _, list := range source.Requests("list") {
			asked = append(asked, fmt.Sprintf("%q", list.ResourceVersion))
		}
		expect(t, asked, `"0"`, `""`, `""`, `""`, `""`, `""`)
	})
}

func TestListsThatExpireAtOnceAreNotRepeatedWithoutAPause(t *testing.T) {
	source := informertest.NewSource(pod("a", "one"))
	wrapped := informer.Funcs[*corev1.Pod]{ListFunc: source.List,
		WatchFunc: func(context.Context, metav1.ListOptions) (watch.Stream[*corev1.Pod], error) {
			return nil, apierrors.NewResourceExpired("too old")
		}}
	withPods(t, wrapped, informer.Options[*corev1.Pod]{DisableStreaming: true}, func(t *testing.T, pods podInformer) {
		mustSync(t, pods)
		time.Sleep(time.Hour)
		if n := len(source.Requests("list")); n < 60 || n > 300 {
			t.Errorf("%d lists within an hour", n)
		}
	})
}

func TestWhatIsDeletedWhileAListIsStreamedIsNotListed(t *testing.T) {
	source := informertest.NewSource[*corev1.Pod]()
	stream := watch.NewFake[*corev1.Pod]()
	wrapped := informer.Funcs[*corev1.Pod]{ListFunc: source.List,
		WatchFunc: func(context.Context, metav1.ListOptions) (watch.Stream[*corev1.Pod], error) { return stream, nil }}
	withPods(t, wrapped, informer.Options[*corev1.Pod]{}, func(t *testing.T, pods podInformer) {
		stream.Add(pod("a", "stays"))
		stream.Add(pod("a", "goes"))
		stream.Delete(pod("a", "goes"))
		end := pod("", "")
		end.ResourceVersion, end.Annotations = "7", map[string]string{metav1.InitialEventsAnnotationKey: "true"}
		stream.Bookmark(end)
		mustSync(t, pods)
		if _, there := pods.Get("a", "goes"); there || pods.Len() != 1 {
			t.Errorf("%d pods", pods.Len())
		}
	})
}

func TestStreamingIsTriedAgainAfterAWhile(t *testing.T) {
	source := informertest.NewSource(pod("a", "one"))
	upgraded := false
	wrapped := informer.Funcs[*corev1.Pod]{ListFunc: source.List,
		WatchFunc: func(ctx context.Context, o metav1.ListOptions) (watch.Stream[*corev1.Pod], error) {
			if o.SendInitialEvents != nil && !upgraded {
				return nil, apierrors.NewBadRequest("what is sendInitialEvents?")
			}
			return source.Watch(ctx, o)
		}}
	relist := func() {
		source.Compact()
		source.Add(pod("a", "another"))
		source.Compact()
		source.EndWatches(io.ErrUnexpectedEOF)
		time.Sleep(time.Minute)
	}
	withPods(t, wrapped, informer.Options[*corev1.Pod]{}, func(t *testing.T, pods podInformer) {
		mustSync(t, pods)
		upgraded = true
		relist()
		if n := len(source.Requests("list")); n != 2 {
			t.Errorf("%d pages were read within a minute, want 2", n)
		}
		time.Sleep(time.Hour)
		relist()
		relist()
		if n := len(source.Requests("list")); n != 2 {
			t.Errorf("%d pages were read, although the server streams now", n)
		}
	})
}

func TestAServerThatNeverEndsAStreamedListIsReadInPagesAfterAWhile(t *testing.T) {
	source := informertest.NewSource(pod("a", "one"))
	source.OmitInitialEventsEnd = true
	withPods(t, source, informer.Options[*corev1.Pod]{StreamTimeout: 7 * time.Second}, func(t *testing.T, pods podInformer) {
		before := time.Now()
		mustSync(t, pods)
		if waited := time.Since(before); waited != 7*time.Second {
			t.Errorf("fell back after %v", waited)
		}
	})
}

func TestPagesThatExpireAreReadAtOnce(t *testing.T) {
	source := informertest.NewSource(pod("a", "one"), pod("a", "two"), pod("a", "three"))
	source.RefuseStreaming = true
	lists := 0
	wrapped := informer.Funcs[*corev1.Pod]{WatchFunc: source.Watch,
		ListFunc: func(ctx context.Context, o metav1.ListOptions) ([]*corev1.Pod, metav1.ListMeta, error) {
			if lists++; lists == 2 {
				source.Add(pod("a", "four"))
				source.Compact()
			}
			return source.List(ctx, o)
		}}
	withPods(t, wrapped, informer.Options[*corev1.Pod]{PageSize: 1}, func(t *testing.T, pods podInformer) {
		mustSync(t, pods)
		all := source.Requests("list")
		if pods.Len() != 4 || all[len(all)-1].Limit != 0 {
			t.Errorf("%d objects; lists: %+v", pods.Len(), all)
		}
	})
}

func TestAnExpiredWatchListsAgainAndTellsWhatVanished(t *testing.T) {
	source := informertest.NewSource(pod("a", "stays"), pod("a", "goes"))
	withPods(t, source, informer.Options[*corev1.Pod]{}, func(t *testing.T, pods podInformer) {
		var vanished []string
		pods.Handle(informer.Handler[*corev1.Pod]{Deleted: func(last *corev1.Pod, unknown bool) {
			vanished = append(vanished, fmt.Sprint(last.Name, " ", unknown))
		}})
		mustSync(t, pods)
		synctest.Wait()
		source.Fail("watch", errors.New("connection refused"))
		source.EndWatches(errors.New("connection reset"))
		synctest.Wait()
		source.Delete(pod("a", "goes"))
		source.Compact()
		time.Sleep(time.Minute)
		synctest.Wait()
		if len(vanished) != 1 || vanished[0] != "goes true" {
			t.Errorf("vanished: %q", vanished)
		}
		if got := names(pods); got != "stays" {
			t.Errorf("the cache has %q", got)
		}
	})
}

func TestAWatchIsTakenUpWhereItWasCutWithoutAList(t *testing.T) {
	source := informertest.NewSource(pod("a", "one"))
	withPods(t, source, informer.Options[*corev1.Pod]{}, func(t *testing.T, pods podInformer) {
		mustSync(t, pods)
		rv := source.Add(pod("a", "two")).ResourceVersion
		synctest.Wait()
		source.EndWatches(io.ErrUnexpectedEOF)
		time.Sleep(time.Minute)
		watches := source.Requests("watch")
		if len(watches) != 2 || watches[1].ResourceVersion != rv || watches[1].SendInitialEvents != nil {
			t.Errorf("watches: %+v", watches)
		}
	})
}

func TestABookmarkMovesThePlaceToContinueFrom(t *testing.T) {
	source := informertest.NewSource(pod("a", "one"))
	withPods(t, source, informer.Options[*corev1.Pod]{LabelSelector: "app=none"}, func(t *testing.T, pods podInformer) {
		mustSync(t, pods)
		rv := source.Add(pod("a", "two")).ResourceVersion // not selected, so the watch sends no event for it
		source.SendBookmarks()
		if err := pods.WaitFor(t.Context(), rv); err != nil {
			t.Fatal(err)
		}
		source.Compact()
		source.EndWatches(io.ErrUnexpectedEOF)
		time.Sleep(time.Minute)
		if watches := source.Requests("watch"); len(watches) != 2 || watches[1].ResourceVersion != rv {
			t.Errorf("watches: %+v", watches)
		}
	})
}

func TestAServerThatIsAwayForAnHourIsNotPesteredAndThenFollowedAgain(t *testing.T) {
	source := informertest.NewSource(pod("a", "one"))
	withPods(t, source, informer.Options[*corev1.Pod]{}, func(t *testing.T, pods podInformer) {
		mustSync(t, pods)
		for range 1000 {
			source.Fail("watch", errors.New("connection refused"))
			source.Fail("list", errors.New("connection refused"))
		}
		source.EndWatches(errors.New("connection reset"))
		time.Sleep(time.Hour)
		attempts := len(source.Requests("watch"))
		if attempts < 50 || attempts > 150 {
			t.Errorf("%d attempts in an hour", attempts)
		}
		if got := names(pods); got != "one" {
			t.Errorf("meanwhile the cache has %q", got)
		}
		source.Add(pod("a", "two"))
		time.Sleep(24 * time.Hour)
		if got := names(pods); got != "one two" {
			t.Errorf("in the end the cache has %q", got)
		}
	})
}

func TestAKindThatDoesNotExistYetIsWaitedForGentlyAndSaidSo(t *testing.T) {
	source := informertest.NewSource(pod("a", "one"))
	missing := apierrors.NewNotFound(schema.GroupResource{Resource: "pods"}, "")
	for range 8 {
		source.Fail("watch", missing)
		source.Fail("list", missing)
	}
	withPods(t, source, informer.Options[*corev1.Pod]{}, func(t *testing.T, pods podInformer) {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		err := pods.Synced(ctx)
		if !apierrors.IsNotFound(err) || !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "no such kind") {
			t.Errorf("Synced: %v", err)
		}
		mustSync(t, pods)
	})
}

func TestAServerRestoredFromABackupIsListedAgain(t *testing.T) {
	source := informertest.NewSource(pod("a", "one"))
	withPods(t, source, informer.Options[*corev1.Pod]{}, func(t *testing.T, pods podInformer) {
		mustSync(t, pods)
		broken := &apierrors.StatusError{ErrStatus: metav1.Status{Code: http.StatusInternalServerError, Reason: metav1.StatusReasonInternalError}}
		source.Fail("watch", broken, broken, broken)
		source.EndWatches(io.ErrUnexpectedEOF)
		time.Sleep(4 * time.Minute)
		watches := source.Requests("watch")
		if last := watches[len(watches)-1]; last.SendInitialEvents == nil {
			t.Errorf("the last watch is not a list: %+v", last)
		}
	})
}

func TestSelectorsRestrictWhatIsCached(t *testing.T) {
	source := informertest.NewSource(pod("a", "one"), pod("b", "two"))
	withPods(t, source, informer.Options[*corev1.Pod]{FieldSelector: "metadata.namespace=b"}, func(t *testing.T, pods podInformer) {
		mustSync(t, pods)
		if got := names(pods); got != "two" {
			t.Errorf("the cache has %q", got)
		}
		labelled := pod("b", "three")
		labelled.Labels = map[string]string{"app": "x"}
		if err := pods.WaitFor(t.Context(), source.Add(labelled).ResourceVersion); err != nil {
			t.Fatal(err)
		}
		for p := range pods.Select(labels.SelectorFromSet(labels.Set{"app": "x"})) {
			if p.Name != "three" {
				t.Errorf("selected %s", p.Name)
			}
		}
	})
}
