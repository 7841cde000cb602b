package watchcache_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/millrace/millrace/internal/server/store"
	"github.com/millrace/millrace/internal/server/watchcache"
)

var _ labels.Labels = watchcache.Labels{}

func TestSnapshotNeverChanges(t *testing.T) {
	run(t, watchcache.Options{}, func(w *world) {
		w.put(pods+"a/x", "|n1||")
		w.put(pods+"b/y", "|n1||")
		w.settle()
		before := w.pods.Snapshot()
		w.delete(pods + "a/x")
		w.put(pods+"b/y", "|n2||")
		w.put(pods+"b/z", "|||")
		w.settle()
		if got := names(before); !slices.Equal(got, []string{"a/x", "b/y"}) || before.Revision() != 3 || before.Len() != 2 {
			t.Errorf("snapshot at %d has become %q", before.Revision(), got)
		}
		if o, _ := before.Get(pods + "b/y"); o.Field(fieldNode) != "n1" {
			t.Error("an object of a snapshot has changed")
		}
		after := w.pods.Snapshot()
		if got := names(after); !slices.Equal(got, []string{"b/y", "b/z"}) || after.Revision() != 6 {
			t.Errorf("snapshot at %d has %q", after.Revision(), got)
		}
		if o, ok := w.pods.Get(pods + "b/y"); !ok || o.Field(fieldNode) != "n2" {
			t.Error("Get returns an old object")
		}
		if _, ok := w.pods.Get(pods + "a/x"); ok {
			t.Error("Get returns a deleted object")
		}
	})
}

func TestSnapshotOfAnIdleKindIsAsNewAsTheCache(t *testing.T) {
	run(t, watchcache.Options{}, func(w *world) {
		w.put(pods+"a/x", "|||")
		w.put(nodes+"n", "||")
		w.settle()
		if rev := w.pods.Snapshot().Revision(); rev != 3 {
			t.Errorf("snapshot is at %d, the cache at %d", rev, w.cache.Revision())
		}
	})
}

func TestRangeGoesThroughAPrefixInPages(t *testing.T) {
	run(t, watchcache.Options{}, func(w *world) {
		for _, ns := range []string{"a", "ab", "b"} {
			for i := range 10 {
				w.put(fmt.Sprintf("%s%s/x%d", pods, ns, i), "|||")
			}
		}
		w.settle()
		s := w.pods.Snapshot()
		var got []string
		for after, more := "", true; more; {
			more = false
			if n := s.CountRange(pods+"a/", after); n != 10-len(got) {
				t.Fatalf("%d remain after %q, have %d", n, after, len(got))
			}
			page := 0
			for o := range s.Range(pods+"a/", after) {
				if page++; page == 4 {
					more = true
					break
				}
				got = append(got, o.Name())
				after = o.Key
			}
		}
		if len(got) != 10 || got[0] != "x0" || got[9] != "x9" {
			t.Errorf("pages have %q", got)
		}
		if n := s.CountRange(pods, ""); n != 30 {
			t.Errorf("counted %d", n)
		}
		if n := s.CountRange(pods+"a/", pods+"b/"); n != 0 {
			t.Errorf("counted %d after the end", n)
		}
	})
}

func TestPastStatesAreExactInsideTheWindowAndExpiredOutside(t *testing.T) {
	run(t, watchcache.Options{WindowEvents: 200}, func(w *world) {
		w.put(pods+"a/gone", "|||")
		type state struct {
			rev   store.Revision
			names []string
		}
		var states []state
		for i := range 150 {
			w.put(fmt.Sprintf("%sa/x%d", pods, i%40), fmt.Sprintf("|||%d", i))
			if i%7 == 0 {
				w.delete(fmt.Sprintf("%sa/x%d", pods, i%40))
			}
			rev := w.settle()
			states = append(states, state{rev, names(w.pods.Snapshot())})
		}
		ask := func() {
			for _, i := range []int{149, 0, 75, 75, 10, 148, 76, 74, 3} {
				s, err := w.pods.SnapshotAt(states[i].rev)
				if err != nil {
					t.Fatal(err)
				}
				if got := names(s); !slices.Equal(got, states[i].names) || s.Revision() != states[i].rev {
					t.Errorf("at %d it was %q, want %q", states[i].rev, got, states[i].names)
				}
				if n := s.CountRange(pods, ""); n != len(states[i].names) {
					t.Errorf("counted %d of %d", n, len(states[i].names))
				}
			}
		}
		ask()
		_, err := w.pods.SnapshotAt(w.cache.Revision() + 1)
		w.wants(err, watchcache.ErrFuture)
		_, err = w.pods.SnapshotAt(0)
		w.wants(err, watchcache.ErrExpired)
		for range 200 {
			w.put(pods+"a/y", "|||")
		}
		w.settle()
		_, err = w.pods.SnapshotAt(states[149].rev - 1)
		w.wants(err, watchcache.ErrExpired)
		_, err = w.pods.SnapshotAt(states[149].rev)
		w.must(err)
	})
}

func TestAnObjectThatCannotBeDecodedIsLeftOutAndNamed(t *testing.T) {
	run(t, watchcache.Options{}, func(w *world) {
		c := w.watch(w.pods, 1, watchcache.All())
		w.put(pods+"a/x", "garbage")
		w.put(pods+"a/y", "app=web|n1||")
		w.settle()
		w.reads(c, "3 Added y")
		if err := w.pods.Unreadable(pods + "a/x"); !errors.Is(err, store.ErrUnreadable) {
			t.Errorf("it is named by %v", err)
		}
		if all := w.pods.AllUnreadable(); len(all) != 1 || !all[pods+"a/x"].Undecodable {
			t.Errorf("unreadable are %v", all)
		}
		if a, b := w.pods.UnreadableIn("a"), w.pods.UnreadableIn("b"); a != 1 || b != 0 {
			t.Errorf("%d are unreadable in its namespace, %d in another", a, b)
		}
		w.put(pods+"a/x", "app=web|n1||")
		w.put(pods+"a/y", "garbage")
		w.settle()
		w.reads(c, "4 Added x", "5 Deleted y")
		if n := w.pods.Stats().Unreadable; n != 2 {
			t.Errorf("%d versions were unreadable", n)
		}
	})
}

func TestLabelsAreSortedAndShared(t *testing.T) {
	run(t, watchcache.Options{}, func(w *world) {
		w.put(pods+"a/x", "b=2,a=1,c=|n1||")
		w.put(pods+"a/y", "c=,a=1,b=2|n1||")
		w.settle()
		x, _ := w.pods.Get(pods + "a/x")
		y, _ := w.pods.Get(pods + "a/y")
		if x.Labels != y.Labels {
			t.Error("equal labels are not shared")
		}
		var got string
		for k, v := range x.Labels.All() {
			got += k + "=" + v + ";"
		}
		if got != "a=1;b=2;c=;" || !x.Labels.Has("c") || x.Labels.Has("d") || x.Labels.Get("b") != "2" || x.Labels.Len() != 3 {
			t.Errorf("labels are %s", got)
		}
		if m := watchcache.LabelsOf(map[string]string{"z": "1", "y": "2"}); m.Get("z") != "1" || m.Len() != 2 {
			t.Error("labels of a map")
		}
		if m := watchcache.MakeLabels([]watchcache.Label{{Key: "a", Value: "1"}, {Key: "a", Value: "2"}}); m.Get("a") != "2" || m.Len() != 1 {
			t.Error("the later of two labels counts")
		}
		if (watchcache.Labels{}).Has("a") || watchcache.LabelsOf(nil) != (watchcache.Labels{}) {
			t.Error("no labels are not none")
		}
	})
}

func TestFormIsMadeOnce(t *testing.T) {
	run(t, watchcache.Options{}, func(w *world) {
		w.put(pods+"a/x", "|||body")
		w.settle()
		o, _ := w.pods.Get(pods + "a/x")
		made := 0
		release := make(chan struct{})
		for range 10 {
			w.ended.Go(func() {
				got, err := o.Form(0, 3, func() ([]byte, error) {
					<-release
					made++
					plain, err := o.Form(0, 0, func() ([]byte, error) { return o.Value(), nil })
					return append([]byte("zip "), plain...), err
				})
				if string(got) != "zip |||body" || err != nil {
					t.Errorf("form is %q, %v", got, err)
				}
			})
		}
		close(release)
		w.stop()
		w.ended.Wait()
		if made != 1 {
			t.Errorf("made %d times", made)
		}
		if s := w.cache.Stats(); s.Forms != 0 {
			t.Logf("%d forms are kept", s.Forms)
		}
	})
}

func TestFailureToMakeAFormIsNotKept(t *testing.T) {
	run(t, watchcache.Options{}, func(w *world) {
		w.put(pods+"a/x", "|||")
		w.settle()
		o, _ := w.pods.Get(pods + "a/x")
		broken := errors.New("broken")
		_, err := o.Form(0, 0, func() ([]byte, error) { return nil, broken })
		w.wants(err, broken)
		if got, err := o.Form(0, 0, func() ([]byte, error) { return []byte("ok"), nil }); string(got) != "ok" || err != nil {
			t.Errorf("%q, %v", got, err)
		}
	})
}

func TestFormsStayWithinTheirBudget(t *testing.T) {
	run(t, watchcache.Options{FormBudget: 100_000}, func(w *world) {
		for i := range 50 {
			w.put(fmt.Sprintf("%sa/x%02d", pods, i), "|||")
		}
		w.settle()
		made := map[string]int{}
		form := func(o *watchcache.Object) {
			if _, err := o.Form(0, 1, func() ([]byte, error) { made[o.Name()]++; return make([]byte, 10_000), nil }); err != nil {
				t.Fatal(err)
			}
		}
		hot, _ := w.pods.Get(pods + "a/x00")
		for o := range w.pods.Snapshot().Range(pods, "") {
			form(o)
			form(hot)
		}
		if s := w.cache.Stats(); s.FormBytes > 100_000 || s.Forms < 5 {
			t.Errorf("%+v", s)
		}
		if made["x00"] != 1 {
			t.Errorf("the form that everybody asks for was made %d times", made["x00"])
		}
		if made["x01"] != 1 {
			t.Errorf("x01 was made %d times", made["x01"])
		}
		cold, _ := w.pods.Get(pods + "a/x01")
		form(cold)
		if made["x01"] != 2 {
			t.Error("an old form was kept")
		}
	})
}

func TestFormsAreDroppedWithTheWindow(t *testing.T) {
	run(t, watchcache.Options{WindowEvents: 64}, func(w *world) {
		c := w.watch(w.pods, 1, watchcache.All())
		for range 300 {
			w.put(pods+"a/x", "|||")
			w.settle()
			e, ok, err := c.Next()
			if !ok || err != nil {
				t.Fatal(err)
			}
			frame := func() ([]byte, error) { return make([]byte, 100), nil }
			if _, err := e.Form(0, 0, frame); err != nil {
				t.Fatal(err)
			}
			if _, err := e.Object.Form(0, 0, frame); err != nil {
				t.Fatal(err)
			}
		}
		if s := w.cache.Stats(); s.Forms > 2*65 {
			t.Errorf("%d forms are kept of 64 events", s.Forms)
		}
	})
}

func TestObjectOfTheStoreIsLikeOneOfTheCache(t *testing.T) {
	run(t, watchcache.Options{}, func(w *world) {
		w.put(pods+"a/x", "app=web|n1|Running|body")
		w.settle()
		cached, _ := w.pods.Get(pods + "a/x")
		e, err := w.store.Get(t.Context(), pods+"a/x", store.GetOptions{})
		w.must(err)
		o, err := watchcache.NewObject(kindOf(pods), e)
		w.must(err)
		if o.Key != cached.Key || o.Revision != cached.Revision || o.Namespace() != "a" || o.Name() != "x" ||
			o.Field(fieldNode) != "n1" || o.Labels.Get("app") != "web" || string(o.Value()) != string(cached.Value()) {
			t.Errorf("%+v, the cache has %+v", o, cached)
		}
		made := 0
		for range 2 {
			form, err := o.Form(0, 0, func() ([]byte, error) { made++; return o.Value(), nil })
			if string(form) != "app=web|n1|Running|body" || err != nil {
				t.Errorf("form is %q, %v", form, err)
			}
		}
		if made != 2 {
			t.Errorf("form was made %d times", made)
		}
		if o, err := watchcache.NewObject(kindOf(pods), store.Entry{Key: pods + "a/y", Value: []byte("garbage")}); o.Name() != "y" || err == nil {
			t.Errorf("unreadable object is called %q, %v", o.Name(), err)
		}
	})
}
