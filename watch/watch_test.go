package watch_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiwatch "k8s.io/apimachinery/pkg/watch"

	"github.com/millrace/millrace/watch"
)

func added(n int) watch.Event[int] { return watch.Event[int]{Type: watch.Added, Object: n} }

// read reads a stream to its end.
func read[T any](t *testing.T, stream watch.Stream[T]) (objects []T, last error) {
	t.Helper()
	for {
		event, err := stream.Next(t.Context())
		if err != nil {
			return objects, err
		}
		objects = append(objects, event.Object)
	}
}

func TestAFakeDeliversFromSeveralSendersAndEnds(t *testing.T) {
	fake := watch.NewFake[int]()
	var senders sync.WaitGroup
	for n := range 20 {
		senders.Go(func() { fake.Add(n) })
	}
	senders.Wait()
	fake.End()
	fake.Add(99)
	if objects, err := read(t, fake); len(objects) != 20 || err != io.EOF {
		t.Errorf("%d events and %v, want 20 and EOF", len(objects), err)
	}
}

func TestStoppingAStreamWakesItsReceiver(t *testing.T) {
	broadcaster := watch.NewBroadcaster[int](watch.BroadcasterOptions{})
	upstream := apiwatch.NewFake()
	streams := map[string]watch.Stream[int]{
		"fake":     watch.NewFake[int](),
		"receiver": broadcaster.Watch(),
		"filter":   watch.Filter(watch.NewFake[int](), func(e watch.Event[int]) (watch.Event[int], bool) { return e, true }),
		"decode":   watch.Decode(newBlocked()),
	}
	for name, stream := range streams {
		t.Run(name, func(t *testing.T) { stopWhileWaiting(t, stream) })
	}
	t.Run("api", func(t *testing.T) { stopWhileWaiting(t, watch.FromAPI[*corev1.Pod](upstream)) })
}

func stopWhileWaiting[T any](t *testing.T, stream watch.Stream[T]) {
	t.Helper()
	ended := make(chan error)
	go func() {
		_, err := stream.Next(t.Context())
		ended <- err
	}()
	stream.Stop()
	stream.Stop()
	if err := <-ended; !errors.Is(err, watch.ErrStopped) {
		t.Errorf("Next: %v", err)
	}
	if _, err := stream.Next(t.Context()); !errors.Is(err, watch.ErrStopped) {
		t.Errorf("Next after Stop: %v", err)
	}
}

// blocked is a decoder that waits until it is closed.
type blocked struct{ closed chan struct{} }

func newBlocked() *blocked { return &blocked{closed: make(chan struct{})} }

func (b *blocked) Decode() (watch.Event[int], error) {
	<-b.closed
	return watch.Event[int]{}, errors.New("read on closed body")
}

func (b *blocked) Close() error { close(b.closed); return nil }

func TestTheEndOfAContextEndsADecoderStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		stream := watch.Decode(newBlocked())
		if _, err := stream.Next(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Next: %v", err)
		}
		if _, err := stream.Next(t.Context()); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Next after the end: %v", err)
		}
	})
}

// script is a decoder of given events and a final error.
type script struct {
	events []watch.Event[int]
	err    error
}

func (s *script) Decode() (watch.Event[int], error) {
	if len(s.events) == 0 {
		return watch.Event[int]{}, s.err
	}
	event := s.events[0]
	s.events = s.events[1:]
	return event, nil
}

func (s *script) Close() error { return nil }

func TestADecoderStreamDistinguishesAnEndFromABrokenConnection(t *testing.T) {
	broken := errors.New("no event")
	for _, test := range []struct{ from, want error }{{io.EOF, io.EOF}, {io.ErrUnexpectedEOF, io.ErrUnexpectedEOF}, {broken, broken}} {
		objects, err := read(t, watch.Decode(&script{events: []watch.Event[int]{added(1), added(2)}, err: test.from}))
		if len(objects) != 2 || !errors.Is(err, test.want) {
			t.Errorf("after %v: %v and %v", test.from, objects, err)
		}
	}
}

func TestAWaitingBroadcasterLosesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := watch.NewBroadcaster[int](watch.BroadcasterOptions{Buffer: 1})
		slow, quick := b.Watch(), b.Watch(added(-1))
		go func() {
			for n := range 50 {
				if err := b.Send(t.Context(), added(n)); err != nil {
					t.Errorf("Send: %v", err)
				}
			}
			b.Close()
		}()
		var readers sync.WaitGroup
		readers.Go(func() {
			if objects, err := read(t, quick); len(objects) != 51 || objects[0] != -1 || err != io.EOF {
				t.Errorf("the quick one read %d and %v", len(objects), err)
			}
		})
		for n := range 50 {
			time.Sleep(time.Second)
			if event, err := slow.Next(t.Context()); err != nil || event.Object != n {
				t.Errorf("the slow one read %v and %v, want %d", event, err, n)
			}
		}
		readers.Wait()
	})
}

func TestADroppingBroadcasterDropsOnlyForTheFullReceiver(t *testing.T) {
	b := watch.NewBroadcaster[int](watch.BroadcasterOptions{Buffer: 2, WhenFull: watch.Drop})
	full, reading := b.Watch(), b.Watch()
	for n := range 5 {
		if err := b.Send(t.Context(), added(n)); err != nil {
			t.Fatal(err)
		}
		if event, err := reading.Next(t.Context()); err != nil || event.Object != n {
			t.Errorf("read %v and %v, want %d", event, err, n)
		}
	}
	b.Close()
	objects, _ := read(t, full)
	if fmt.Sprint(objects) != "[0 1]" || full.Lost() != 3 || reading.Lost() != 0 {
		t.Errorf("the full one read %v and lost %d, the other lost %d", objects, full.Lost(), reading.Lost())
	}
}

func TestAWaitingSenderContinuesWhenTheReceiverLeavesOrTheBroadcasterIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := watch.NewBroadcaster[int](watch.BroadcasterOptions{Buffer: 1})
		leaving := b.Watch()
		sent := make(chan error)
		send := func() { sent <- errors.Join(b.Send(t.Context(), added(1)), b.Send(t.Context(), added(2))) }
		go send()
		synctest.Wait()
		leaving.Stop()
		if err := <-sent; err != nil {
			t.Errorf("Send to one that left: %v", err)
		}
		b.Watch()
		go send()
		synctest.Wait()
		b.Close()
		if err := <-sent; !errors.Is(err, watch.ErrClosed) {
			t.Errorf("Send while closing: %v", err)
		}
	})
}

func TestUntilWaitsForOneConditionAfterAnother(t *testing.T) {
	fake := watch.NewFake[int]()
	for n := range 10 {
		fake.Add(n)
		fake.Bookmark(100)
	}
	atLeast := func(limit int) watch.Condition[int] {
		return func(e watch.Event[int]) (bool, error) { return e.Object >= limit, nil }
	}
	event, err := watch.Until(t.Context(), fake, atLeast(3), atLeast(3), atLeast(7))
	if err != nil || event.Object != 7 || !fake.Stopped() {
		t.Errorf("Until: %v, %v; stopped: %v", event, err, fake.Stopped())
	}
	if _, err := watch.Until(t.Context(), watch.Empty[int](), atLeast(1)); !errors.Is(err, watch.ErrEnded) {
		t.Errorf("Until on an empty stream: %v", err)
	}
	failing := watch.NewFake[int]()
	gone := apierrors.NewResourceExpired("too old")
	failing.Fail(gone)
	if _, err := watch.Until(t.Context(), failing, atLeast(1)); !errors.Is(err, gone) {
		t.Errorf("Until on a failing stream: %v", err)
	}
}

func TestRangingStopsTheStream(t *testing.T) {
	fake := watch.NewFake[int]()
	fake.Add(1)
	fake.Add(2)
	for event, err := range watch.All(t.Context(), fake) {
		if err != nil || event.Object != 1 {
			t.Errorf("got %v, %v", event, err)
		}
		break
	}
	if !fake.Stopped() {
		t.Error("the stream was not stopped")
	}
}

func TestAFilterDropsAndChangesButLetsErrorsPass(t *testing.T) {
	fake := watch.NewFake[int]()
	for n := range 6 {
		fake.Add(n)
	}
	fake.Fail(io.ErrNoProgress)
	fake.End()
	even := watch.Filter(fake, func(e watch.Event[int]) (watch.Event[int], bool) {
		e.Object *= 10
		return e, e.Object%20 == 0
	})
	if objects, err := read(t, even); fmt.Sprint(objects) != "[0 20 40 0]" || err != io.EOF {
		t.Errorf("read %v and %v", objects, err)
	}
}

func TestEventsSurviveTheConversionToAPIMachineryAndBack(t *testing.T) {
	fake := watch.NewFake[*corev1.Pod]()
	fake.Add(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "one"}})
	fake.Fail(apierrors.NewResourceExpired("too old"))
	fake.End()
	back := watch.FromAPI[*corev1.Pod](watch.ToAPI(fake))
	defer back.Stop()
	if event, err := back.Next(t.Context()); err != nil || event.Type != watch.Added || event.Object.Name != "one" {
		t.Errorf("first: %v, %v", event, err)
	}
	if event, err := back.Next(t.Context()); err != nil || event.Type != watch.Error || !apierrors.IsResourceExpired(event.Err) {
		t.Errorf("second: %v, %v", event, err)
	}
	if _, err := back.Next(t.Context()); err != io.EOF {
		t.Errorf("third: %v", err)
	}
}

func TestAnObjectOfAnotherTypeIsAnError(t *testing.T) {
	upstream := apiwatch.NewFakeWithChanSize(1, false)
	upstream.Add(&corev1.Node{})
	event, err := watch.FromAPI[*corev1.Pod](upstream).Next(t.Context())
	if err != nil || event.Type != watch.Error || event.Err == nil {
		t.Errorf("got %v, %v", event, err)
	}
}
