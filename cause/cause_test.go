package cause_test

import (
	"net/http"
	"reflect"
	"strings"
	"testing"

	"github.com/millrace/millrace/cause"
)

func change(name string, revision uint64) cause.Change {
	return cause.Change{Resource: "replicasets.apps", Namespace: "default", Name: name, Revision: revision}
}

func TestACauseIsReadAsItWasSent(t *testing.T) {
	for _, c := range []cause.Cause{
		{Loop: "deployment"},
		{Loop: "deployment", Key: "default/web", Changes: []cause.Change{change("web", 7), {Resource: "nodes", Name: "a", Revision: 9}}, Count: 2},
		{Loop: "job", Key: "x", Changes: []cause.Change{change("web@7/;%=", 7)}, Count: 100, Timer: true, Retry: true, Resync: true},
		{Loop: "scheduler", Told: "a node = new", Decision: "7 of 9 nodes refused: 5 × too little cpu; 2 × \x00\n"},
	} {
		text := c.String()
		for _, b := range []byte(text) {
			if b < ' ' || b >= 0x7f {
				t.Fatalf("%q cannot be in a header", text)
			}
		}
		if got, err := cause.Parse(text); err != nil || !reflect.DeepEqual(got, c) {
			t.Errorf("%q became %+v: %v", text, got, err)
		}
	}
}

func TestBrokenCausesAreRefused(t *testing.T) {
	for _, text := range []string{"", ";", "loop", "loop=%zz", "change=pods", "change=pods/a/b", "change=pods/a/b@x",
		"change=pods/a/b@99999999999999999999", "count=-1", "count=x", "loop=" + strings.Repeat("a", 5<<10)} {
		if c, err := cause.Parse(text); err == nil || !reflect.DeepEqual(c, cause.Cause{}) {
			t.Errorf("%.40q became %+v: %v", text, c, err)
		}
	}
	if c, err := cause.Parse("loop=a;later=b;how=else"); err != nil || c.Loop != "a" {
		t.Errorf("words of a later version: %+v, %v", c, err)
	}
}

func TestManyChangesAreTheFirstAndTheLastOnes(t *testing.T) {
	var c cause.Cause
	for i := range uint64(11) { // without a revision it is none
		c.Add(change("web", i))
		c.Add(change("web", i)) // told twice
	}
	want := []cause.Change{change("web", 1), change("web", 8), change("web", 9), change("web", 10)}
	if !c.Resync {
		t.Error("something without a revision was not taken for a resync")
	}
	if c.Count != 10 || !reflect.DeepEqual(c.Changes, want) {
		t.Errorf("%+v", c)
	}
	merged := c.Clone()
	merged.Merge(&cause.Cause{Changes: []cause.Change{change("web", 20)}, Count: 1, Retry: true})
	if merged.Count != 11 || merged.Changes[3] != change("web", 20) || merged.Changes[0] != want[0] || !merged.Retry {
		t.Errorf("%+v", merged)
	}
	if !reflect.DeepEqual(c.Changes, want) {
		t.Errorf("the original changed as well: %+v", c)
	}
}

// sent is a transport that keeps the last header.
type sent struct{ header []string }

func (s *sent) RoundTrip(r *http.Request) (*http.Response, error) {
	s.header = r.Header[cause.Header]
	return nil, nil
}

func TestOnlyRequestsThatWriteCarryACause(t *testing.T) {
	because := cause.Cause{Loop: "deployment", Key: "default/web"}
	for _, c := range []struct {
		method string
		with   bool
		want   string
	}{{"POST", true, "loop=deployment;key=default/web"}, {"PATCH", false, ""}, {"GET", true, ""}, {"DELETE", true, "loop=deployment;key=default/web"}} {
		ctx := t.Context()
		if c.with {
			ctx = cause.With(ctx, because)
		}
		r, _ := http.NewRequestWithContext(ctx, c.method, "http://server/", nil)
		s := &sent{}
		_, _ = cause.Transport(s).RoundTrip(r)
		if got := strings.Join(s.header, ","); got != c.want {
			t.Errorf("%s: sent %q", c.method, got)
		}
		if len(r.Header) > 0 {
			t.Errorf("%s: the caller's request was changed", c.method)
		}
	}
}

func TestADecisionIsAddedToTheCause(t *testing.T) {
	ctx := cause.Deciding(cause.Working(t.Context(), "scheduler", "default/a", nil), "node-3")
	if got, ok := cause.From(ctx); !ok || got.String() != "loop=scheduler;key=default/a;decision=node-3" {
		t.Errorf("it is %q", got)
	}
}

func FuzzReadingCauses(f *testing.F) {
	f.Add("loop=a;key=b;change=pods/a/b@7;count=3;how=retry;decision=x%20y")
	f.Fuzz(func(t *testing.T, text string) {
		c, err := cause.Parse(text)
		if err != nil {
			return
		}
		if c.String() == "" {
			return
		}
		if again, err := cause.Parse(c.String()); err != nil || !reflect.DeepEqual(again, c) {
			t.Errorf("%+v became %+v: %v", c, again, err)
		}
	})
}
