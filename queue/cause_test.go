package queue_test

import (
	"context"
	"errors"
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/cause"
	"github.com/millrace/millrace/queue"
)

func podChange(revision uint64) cause.Change {
	return cause.Change{Resource: "pods", Namespace: "default", Name: "a", Revision: revision}
}

// working runs a queue whose work returns the answers in turn, and passes on the cause of each work.
func working(t *testing.T, answers ...func(q *queue.Queue[string]) error) (*queue.Queue[string], <-chan cause.Cause) {
	causes := make(chan cause.Cause, 100)
	q := queue.New(queue.Options[string]{Name: "pods", OnError: func(context.Context, string, error) {}})
	ctx, stop := context.WithCancel(t.Context())
	t.Cleanup(stop)
	go q.Run(ctx, 1, func(ctx context.Context, key string) error {
		c, _ := cause.From(ctx)
		causes <- c
		if len(answers) == 0 {
			return nil
		}
		answer := answers[0]
		answers = answers[1:]
		return answer(q)
	})
	return q, causes
}

func TestWorkKnowsTheChangesSinceTheLastWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, causes := working(t, func(q *queue.Queue[string]) error {
			q.AddBecause("a", podChange(3)) // while it is worked on
			q.AddBecause("a", podChange(4))
			return nil
		})
		q.AddAfter("a", time.Second)
		q.AddBecause("a", podChange(1))
		want := func(changes []cause.Change, timer bool) {
			t.Helper()
			synctest.Wait()
			if got := (<-causes); got.Loop != "pods" || got.Key != "a" || !reflect.DeepEqual(got.Changes, changes) || got.Count != len(changes) || got.Timer != timer {
				t.Errorf("because of %+v", got)
			}
		}
		want([]cause.Change{podChange(1)}, false)
		want([]cause.Change{podChange(3), podChange(4)}, false)
		time.Sleep(time.Second)
		want(nil, true)
	})
}

func TestARetryAndATimerHaveTheCausesOfTheWorkBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, causes := working(t,
			func(*queue.Queue[string]) error { return errors.New("refused") },
			func(q *queue.Queue[string]) error { q.AddAfter("a", time.Minute); return nil },
			func(q *queue.Queue[string]) error { q.RetryAfter("a", time.Minute); return nil },
		)
		q.AddBecause("a", podChange(1))
		for _, want := range []cause.Cause{{}, {Retry: true}, {Timer: true}, {Timer: true, Retry: true}} {
			want.Loop, want.Key, want.Changes, want.Count = "pods", "a", []cause.Change{podChange(1)}, 1
			time.Sleep(time.Hour)
			if got := <-causes; !reflect.DeepEqual(got, want) {
				t.Errorf("because of %+v, not %+v", got, want)
			}
		}
	})
}

func TestAChangeThatComesBeforeARetryDoesNotHideWhyItWasTried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, causes := working(t, func(q *queue.Queue[string]) error { q.RetryAfter("a", time.Minute); return nil })
		q.AddBecause("a", podChange(1))
		<-causes
		synctest.Wait()
		q.AddBecause("a", podChange(2))
		if got := <-causes; !got.Retry || got.Count != 2 || !reflect.DeepEqual(got.Changes, []cause.Change{podChange(1), podChange(2)}) {
			t.Errorf("because of %+v", got)
		}
		time.Sleep(time.Hour)
		if got := <-causes; !got.Retry || got.Count != 0 {
			t.Errorf("the delayed retry was because of %+v", got)
		}
	})
}

func TestChangesThatAreGatheredAreCausesOfWhateverWorkComesNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, causes := working(t)
		q.AddBecauseAfter("a", podChange(1), time.Minute)
		q.AddBecauseAfter("a", podChange(2), time.Second)
		q.AddBecauseAfter("a", podChange(3), time.Hour)
		time.Sleep(2 * time.Second)
		if got := <-causes; got.Count != 3 || got.Timer || got.Changes[2] != podChange(3) {
			t.Errorf("because of %+v", got)
		}
		q.AddBecauseAfter("a", podChange(4), time.Minute)
		q.AddSaying("a", "its process has ended")
		if got := <-causes; got.Told != "its process has ended" || !reflect.DeepEqual(got.Changes, []cause.Change{podChange(4)}) {
			t.Errorf("because of %+v", got)
		}
		time.Sleep(time.Hour)
		if got := <-causes; got.Count != 0 || got.Timer {
			t.Errorf("what was worked on already is a cause: %+v", got)
		}
	})
}
