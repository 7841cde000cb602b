package loop_test

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
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/millrace/millrace/loop"
)

// withEvents calls f with a running event writer and its recorder.
func withEvents(t *testing.T, f func(t *testing.T, kube *fake.Clientset, recorder loop.Recorder)) {
	synctest.Test(t, func(t *testing.T) {
		kube := fake.NewClientset()
		events := loop.NewEvents(kube.CoreV1(), nil)
		stop := background(t, events)
		f(t, kube, events.For(corev1.EventSource{Component: "tester", Host: "here"}))
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

func written(t *testing.T, kube *fake.Clientset) []corev1.Event {
	t.Helper()
	synctest.Wait()
	list, err := kube.CoreV1().Events("").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return list.Items
}

func TestAnEventHasWhatKubectlDescribeShows(t *testing.T) {
	withEvents(t, func(t *testing.T, kube *fake.Clientset, recorder loop.Recorder) {
		recorder.Eventf(pod("a"), corev1.EventTypeWarning, "Failed", "no luck with %d", 7)
		recorder.Eventf(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}, corev1.EventTypeNormal, "Up", "up")
		for _, e := range written(t, kube) {
			switch e.Reason {
			case "Failed":
				o := e.InvolvedObject
				if e.Namespace != "ns" || o.Kind != "Pod" || o.APIVersion != "v1" || o.Name != "a" || o.UID != uidOf("a") ||
					e.Type != "Warning" || e.Message != "no luck with 7" || e.Count != 1 ||
					e.Source.Component != "tester" || e.Source.Host != "here" || e.ReportingController != "tester" ||
					!e.FirstTimestamp.Time.Equal(time.Now()) || !e.LastTimestamp.Time.Equal(time.Now()) {
					t.Errorf("wrote %+v", e)
				}
			case "Up":
				if e.Namespace != "default" {
					t.Errorf("the event of a node is in namespace %q", e.Namespace)
				}
			default:
				t.Errorf("wrote %+v", e)
			}
		}
	})
}

func TestEqualEventsAreCountedInOneObject(t *testing.T) {
	withEvents(t, func(t *testing.T, kube *fake.Clientset, recorder loop.Recorder) {
		first := time.Now()
		for range 5 {
			recorder.Eventf(pod("a"), "Normal", "Again", "the same")
			time.Sleep(time.Minute)
		}
		got := written(t, kube)
		if len(got) != 1 || got[0].Count != 5 || !got[0].FirstTimestamp.Time.Equal(first) || got[0].LastTimestamp.Time.Sub(first) != 4*time.Minute {
			t.Errorf("wrote %+v", got)
		}
	})
}

func TestALongMessageIsCutAtACharacter(t *testing.T) {
	withEvents(t, func(t *testing.T, kube *fake.Clientset, recorder loop.Recorder) {
		recorder.Eventf(pod("a"), "Normal", "Long", "%s", "x"+strings.Repeat("ü", 1000))
		if got := written(t, kube)[0].Message; got != "x"+strings.Repeat("ü", 511) {
			t.Errorf("the message has %d bytes and ends with %q", len(got), got[len(got)-3:])
		}
	})
}

func TestACountedEventThatExpiredIsCreatedAgain(t *testing.T) {
	withEvents(t, func(t *testing.T, kube *fake.Clientset, recorder loop.Recorder) {
		recorder.Eventf(pod("a"), "Normal", "Again", "the same")
		for _, e := range written(t, kube) {
			if err := kube.CoreV1().Events(e.Namespace).Delete(t.Context(), e.Name, metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		recorder.Eventf(pod("a"), "Normal", "Again", "the same")
		if got := written(t, kube); len(got) != 1 || got[0].Count != 2 {
			t.Errorf("wrote %+v", got)
		}
	})
}

func TestSimilarEventsAreMergedAndTheirNumberIsLimited(t *testing.T) {
	withEvents(t, func(t *testing.T, kube *fake.Clientset, recorder loop.Recorder) {
		for i := range 40 {
			recorder.Eventf(pod("a"), "Normal", "Chatty", "message %d", i)
		}
		single, merged := 0, int32(0)
		for _, e := range written(t, kube) {
			if strings.HasPrefix(e.Message, "(combined from similar events): message ") {
				merged = e.Count
			} else {
				single++
			}
		}
		// A burst of 25 is allowed: nine single events, then the merged one.
		if single != 9 || merged != 16 {
			t.Errorf("%d single events, the merged one counts %d; want 9 and 16", single, merged)
		}
		recorder.Eventf(pod("b"), "Normal", "Chatty", "of another object")
		if n := len(written(t, kube)); n != 11 {
			t.Errorf("%d events, want 11: other objects have budgets of their own", n)
		}
		time.Sleep(11 * time.Minute)
		recorder.Eventf(pod("a"), "Normal", "Chatty", "after a pause")
		if n := len(written(t, kube)); n != 12 {
			t.Errorf("%d events, want 12: after a pause messages stand by themselves", n)
		}
	})
}

func TestWritingAnEventIsRetriedUnlessTheServerRefusesIt(t *testing.T) {
	refusal := apierrors.NewForbidden(schema.GroupResource{Resource: "events"}, "", errors.New("no"))
	for _, c := range []struct {
		answer error // to the first two tries
		want   int   // how many of three events are written
	}{{errors.New("no network"), 3}, {refusal, 1}} {
		withEvents(t, func(t *testing.T, kube *fake.Clientset, recorder loop.Recorder) {
			tries := 0
			kube.PrependReactor("create", "events", func(clienttesting.Action) (bool, runtime.Object, error) {
				tries++
				return tries <= 2, nil, c.answer
			})
			for i := range 3 {
				recorder.Eventf(pod("a"), "Normal", "Try", "number %d", i)
			}
			time.Sleep(time.Minute)
			if got := len(written(t, kube)); got != c.want {
				t.Errorf("with %v: %d events written, want %d", c.answer, got, c.want)
			}
		})
	}
}

func TestRecordingDoesNotBlockAndMemoryIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kube := fake.NewClientset()
		var kept atomic.Int32
		kube.PrependReactor("create", "events", func(clienttesting.Action) (bool, runtime.Object, error) {
			kept.Add(1)
			return true, nil, nil
		})
		events := loop.NewEvents(kube.CoreV1(), nil) // no event is written yet
		recorder := events.For(corev1.EventSource{})
		for i := range 30_000 {
			recorder.Eventf(pod(fmt.Sprint("p", i)), "Normal", "Flood", "flood")
		}
		stop := background(t, events)
		synctest.Wait()
		stop()
		if n := kept.Load(); n != 20_000 {
			t.Errorf("%d events were kept for writing, want 20000", n)
		}
	})
}

func TestEventsGiveWayToOtherWritesWhileThereIsRoom(t *testing.T) {
	withEvents(t, func(t *testing.T, kube *fake.Clientset, recorder loop.Recorder) {
		const takes = 10 * time.Millisecond
		var count atomic.Int32
		kube.PrependReactor("create", "events", func(clienttesting.Action) (bool, runtime.Object, error) {
			time.Sleep(takes)
			count.Add(1)
			return true, &corev1.Event{}, nil
		})
		in := func(d time.Duration) int32 {
			before := count.Load()
			time.Sleep(d)
			return count.Load() - before
		}
		for i := range 40 { // of one object, so that they are written one after the other
			recorder.Eventf(pod("a"), "Normal", fmt.Sprint("Reason", i), "text")
		}
		if n := in(20 * takes); n < 4 || n > 6 {
			t.Errorf("%d were written while work could have been done", n)
		}
		time.Sleep(time.Hour)
		for i := range 5000 {
			recorder.Eventf(pod("b"), "Normal", fmt.Sprint("Reason", i), "text")
		}
		if n := in(20 * takes); n < 18 {
			t.Errorf("%d were written though the room is getting scarce", n)
		}
	})
}

func TestRunOfEventsEndsEvenIfTheServerHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kube := fake.NewClientset()
		kube.PrependReactor("create", "events", func(clienttesting.Action) (bool, runtime.Object, error) {
			return true, nil, context.DeadlineExceeded
		})
		events := loop.NewEvents(kube.CoreV1(), nil)
		for range 10 {
			events.For(corev1.EventSource{}).Eventf(pod("a"), "Normal", "Late", "late")
		}
		stop := background(t, events)
		synctest.Wait()
		start := time.Now()
		if err := stop(); err != nil || time.Since(start) > 2*time.Second {
			t.Errorf("ended after %v with %v", time.Since(start), err)
		}
	})
}

func TestEventsAboveALimitWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kube := fake.NewClientset()
		events := loop.NewEvents(kube.CoreV1(), nil)
		events.Limit(2, 4)
		stop := background(t, events)
		recorder := events.For(corev1.EventSource{Component: "tester"})
		for i := range 10 {
			recorder.Eventf(pod(fmt.Sprint("p", i)), corev1.EventTypeNormal, "Some", "one")
		}
		for _, want := range []int{4, 6, 8, 10} {
			if got := len(written(t, kube)); got != want {
				t.Errorf("%d events are written, want %d", got, want)
			}
			time.Sleep(time.Second)
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}
