package faults

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/internal/server/store"
	"github.com/millrace/millrace/internal/server/store/memory"
	"github.com/millrace/millrace/internal/server/store/storetest"
)

func TestWithoutRulesItBehavesAsTheStoreInside(t *testing.T) {
	storetest.Run(t, func(*testing.T) store.Store { return Wrap(memory.New(memory.Options{})) })
}

func TestRuleRefusesSoManyCallsAndNoOthers(t *testing.T) {
	s := Wrap(memory.New(memory.Options{}))
	s.Inject(Rule{Ops: Create, Prefix: "/a", Err: store.ErrNoSpace, Skip: 1, Times: 2})
	create := func(key string) error {
		_, err := s.Create(t.Context(), key, nil, 0)
		return err
	}
	for i, want := range []error{nil, store.ErrNoSpace, store.ErrNoSpace, nil} {
		if err := create("/a/" + string(rune('0'+i))); !errors.Is(err, want) {
			t.Errorf("call %d: %v, want %v", i, err, want)
		}
		if err := create("/b/" + string(rune('0'+i))); err != nil {
			t.Errorf("another key: %v", err)
		}
	}
	page, err := s.List(t.Context(), "/a", store.ListOptions{})
	if err != nil || len(page.Entries) != 2 {
		t.Errorf("%d entries, %v", len(page.Entries), err)
	}
	if n := s.Calls(Writes); n != 8 {
		t.Errorf("%d writes", n)
	}
}

func TestRuleMayFailACallThatTookEffect(t *testing.T) {
	s := Wrap(memory.New(memory.Options{}))
	s.Inject(Rule{Ops: Create, Err: store.ErrUnavailable, Done: true, Times: 1})
	if _, err := s.Create(t.Context(), "/a", []byte("x"), 0); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("create: %v", err)
	}
	if _, err := s.Get(t.Context(), "/a", store.GetOptions{}); err != nil {
		t.Errorf("get: %v", err)
	}
}

func TestDelayAndGateHoldACallUpUntilItsContextEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := Wrap(memory.New(memory.Options{}))
		remove := s.Inject(Rule{Ops: Get, Delay: time.Minute})
		start := time.Now()
		if _, err := s.Get(t.Context(), "/a", store.GetOptions{}); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("get: %v", err)
		}
		if took := time.Since(start); took != time.Minute {
			t.Errorf("took %v", took)
		}
		remove()
		s.Inject(Rule{Gate: make(chan struct{})})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := s.Get(ctx, "/a", store.GetOptions{}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("get: %v", err)
		}
	})
}

func TestCutEndsWatchesAndDownRefusesNewOnes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := Wrap(memory.New(memory.Options{}))
		ended := make(chan error)
		watch := func() { ended <- s.Watch(t.Context(), "/", 0, func(store.Batch) error { return nil }) }
		go watch()
		synctest.Wait()
		s.Cut(store.ErrCompacted)
		if err := <-ended; !errors.Is(err, store.ErrCompacted) {
			t.Errorf("watch: %v", err)
		}
		go watch()
		synctest.Wait()
		up := s.Down()
		if err := <-ended; !errors.Is(err, store.ErrUnavailable) {
			t.Errorf("watch: %v", err)
		}
		go watch()
		if err := <-ended; !errors.Is(err, store.ErrUnavailable) {
			t.Errorf("watch while down: %v", err)
		}
		up()
		if _, err := s.Revision(t.Context()); err != nil {
			t.Errorf("after up: %v", err)
		}
	})
}

func TestHoldKeepsEventsBackAndLosesNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := Wrap(memory.New(memory.Options{}))
		ctx, cancel := context.WithCancel(t.Context())
		release := s.Hold()
		events, ended := 0, make(chan error, 1)
		go func() {
			ended <- s.Watch(ctx, "/", 0, func(b store.Batch) error { events += len(b.Events); return nil })
		}()
		synctest.Wait()
		for _, key := range []string{"/a", "/b"} {
			if _, err := s.Create(ctx, key, nil, 0); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		if events != 0 {
			t.Errorf("%d events came", events)
		}
		release()
		synctest.Wait()
		if events != 2 {
			t.Errorf("%d events came", events)
		}
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}
