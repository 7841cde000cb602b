package follow_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/millrace/millrace/internal/server/follow"
	"github.com/millrace/millrace/internal/server/registry"
	"github.com/millrace/millrace/internal/server/registry/registrytest"
	"github.com/millrace/millrace/internal/server/resource"
	"github.com/millrace/millrace/internal/server/store/memory"
	"github.com/millrace/millrace/internal/server/store/storetest"
)

// seen writes down what a stream gives.
type seen struct {
	stream *follow.Stream
	lines  []string
	refuse error
}

func newSeen(r *registry.Registry, kinds ...schema.GroupResource) *seen {
	s := &seen{}
	s.stream = follow.NewStream(follow.StreamOptions{
		Registry: r, Kinds: kinds, Freshness: registry.Freshness{Any: true},
		Begin: func() { s.lines = append(s.lines, "begin") },
		Receive: func(_ context.Context, _ *resource.Kind, e registry.Event) error {
			s.lines = append(s.lines, fmt.Sprint(e.Type, " ", e.Object.Name()))
			return s.refuse
		},
	})
	return s
}

func (s *seen) catchUp(t *testing.T, want ...string) {
	t.Helper()
	synctest.Wait()
	s.lines = nil
	if err := s.stream.CatchUp(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(s.lines, want) {
		t.Errorf("got %q, expected %q", s.lines, want)
	}
}

func remove(t *testing.T, r *registry.Registry, name string) {
	t.Helper()
	kind, _ := r.Catalogue.Kind(configMaps)
	s, err := r.Storage(kind)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Delete(t.Context(), "n", name, metav1.DeleteOptions{}, registry.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
}

func woken(s *follow.Stream) bool {
	select {
	case <-s.Wakes()[0]:
		return true
	default:
		return false
	}
}

func TestAStreamGivesTheStateAndThenEachChangeOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New(memory.Options{})
		defer store.Close()
		r := registrytest.Open(t, store)
		create(t, r, "a", "")
		s := newSeen(r, configMaps)
		defer s.stream.Close()
		s.catchUp(t, "begin", "ADDED a")
		s.catchUp(t)
		if woken(s.stream) {
			t.Error("it is woken though nothing has happened")
		}
		last := create(t, r, "b", "")
		if wrote, err := s.stream.Wrote(); err != nil || wrote != last {
			t.Errorf("this server wrote %v, %v; expected %v", wrote, err, last)
		}
		remove(t, r, "a")
		if synctest.Wait(); !woken(s.stream) {
			t.Error("it is not woken by a change")
		}
		s.catchUp(t, "ADDED b", "DELETED a")
		s.catchUp(t)
	})
}

func TestAStreamBeginsAnewAfterARestore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		former, restored := memory.New(memory.Options{}), memory.New(memory.Options{})
		defer former.Close()
		defer restored.Close()
		create(t, registrytest.Open(t, restored), "old", "")
		behind := storetest.NewRestorable(former)
		r := registrytest.Open(t, behind)
		create(t, r, "old", "")
		create(t, r, "new", "")
		s := newSeen(r, configMaps)
		defer s.stream.Close()
		s.catchUp(t, "begin", "ADDED new", "ADDED old")
		behind.Restore(restored)
		time.Sleep(time.Minute)
		s.catchUp(t, "begin", "ADDED old")
	})
}

func TestAStreamBeginsAnewAfterAnErrorOfItsOwner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New(memory.Options{})
		defer store.Close()
		r := registrytest.Open(t, store)
		s := newSeen(r, configMaps)
		defer s.stream.Close()
		s.catchUp(t, "begin")
		create(t, r, "a", "")
		synctest.Wait()
		s.refuse = errors.New("not now")
		for range 2 {
			if err := s.stream.CatchUp(t.Context()); !errors.Is(err, s.refuse) || s.stream.Following() {
				t.Fatalf("got %v, and the stream goes on: %v", err, s.stream.Following())
			}
		}
		s.refuse = nil
		s.catchUp(t, "begin", "ADDED a")
	})
}

// A stream outlives the request for which it begins, as the watch of a kind without a cache shows: that ends with its
// context.
func TestAStreamOutlivesTheRequestForWhichItBegins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New(memory.Options{})
		defer store.Close()
		r := registrytest.Open(t, store)
		s := newSeen(r, configMaps)
		defer s.stream.Close()
		request, end := context.WithCancel(t.Context())
		if err := s.stream.CatchUp(request); err != nil {
			t.Fatal(err)
		}
		end()
		create(t, r, "a", "")
		s.catchUp(t, "ADDED a")

		other := newSeen(r, configMaps)
		if err := other.stream.CatchUp(request); !errors.Is(err, context.Canceled) {
			t.Errorf("a stream begins for a request that has ended: %v", err)
		}
	})
}

func TestReachedIsARevisionThatAllKindsHaveComeTo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New(memory.Options{})
		defer store.Close()
		r := registrytest.Open(t, store)
		s := newSeen(r, configMaps, schema.GroupResource{Resource: "secrets"})
		defer s.stream.Close()
		if got := s.stream.Reached(); got != 0 {
			t.Errorf("before it has begun it has reached %v", got)
		}
		last := create(t, r, "a", "")
		s.catchUp(t, "begin", string(watch.Added)+" a")
		if reached, shown := s.stream.Reached(), s.stream.Shown(); reached != last || shown != last {
			t.Errorf("reached %v, shown %v; expected %v", reached, shown, last)
		}
		last = create(t, r, "b", "")
		s.catchUp(t, "ADDED b")
		if reached := s.stream.Reached(); reached != last {
			t.Errorf("reached %v, expected %v", reached, last)
		}
	})
}
