package watch_test

import (
	"context"
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiwatch "k8s.io/apimachinery/pkg/watch"

	"github.com/millrace/millrace/watch"
)

// apiSource is an apimachinery watch that records whether it was stopped.
type apiSource struct {
	events  chan apiwatch.Event
	stopped int
}

func (s *apiSource) ResultChan() <-chan apiwatch.Event { return s.events }
func (s *apiSource) Stop()                             { s.stopped++ }

func TestAStreamThatHasEndedIsReleasedWithoutStop(t *testing.T) {
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for _, test := range []struct {
		name string
		ctx  context.Context
		end  func(*apiSource)
		want error
	}{
		{"the source ends", t.Context(), func(s *apiSource) { close(s.events) }, io.EOF},
		{"the context ends", ended, func(*apiSource) {}, context.Canceled},
	} {
		source := &apiSource{events: make(chan apiwatch.Event)}
		stream := watch.FromAPI[*corev1.Pod](source)
		test.end(source)
		for range 2 {
			if _, err := stream.Next(test.ctx); !errors.Is(err, test.want) {
				t.Errorf("%s: Next: %v", test.name, err)
			}
		}
		if source.stopped != 1 {
			t.Errorf("%s: the source was stopped %d times", test.name, source.stopped)
		}
		if stream.Stop(); source.stopped != 1 {
			t.Errorf("%s: after Stop the source was stopped %d times", test.name, source.stopped)
		}
	}
}

func TestAReceiverWhoseContextHasEndedDoesNotBlockSenders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := watch.NewBroadcaster[int](watch.BroadcasterOptions{Buffer: 1})
		receiver := b.Watch()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := receiver.Next(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Next: %v", err)
		}
		sending, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		for i := range 3 {
			if err := b.Send(sending, watch.Event[int]{Type: watch.Added, Object: i}); err != nil {
				t.Errorf("Send: %v", err)
			}
		}
	})
}
