package query

import (
	"net/url"
	"strings"
	"testing"

	"github.com/millrace/millrace/internal/server/registry"
	"github.com/millrace/millrace/internal/server/resource"
)

// TestCombinationsOfVersionMatchAndInitialEventsAreAsInKubernetes compares combinations of parameters with
// kube-apiserver's responses.
func TestCombinationsOfVersionMatchAndInitialEventsAreAsInKubernetes(t *testing.T) {
	const (
		needsMatch  = "resourceVersionMatch: Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
		needsEvents = "resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
		noContinue  = "resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden when continue is provided"
		notExact    = `resourceVersionMatch: Unsupported value: "Exact": supported values: "NotOlderThan"`
		notBogus    = `resourceVersionMatch: Unsupported value: "Bogus": supported values: "NotOlderThan"`
	)
	newest, any := registry.Freshness{}, registry.Freshness{Any: true}
	for _, c := range []struct {
		query   string
		fresh   registry.Freshness
		initial string // sendInitialEvents; empty if the watch does not set it
		errs    []string
	}{
		{"", newest, "", nil},
		{"resourceVersion=0", any, "", nil},
		{"resourceVersion=7", registry.Freshness{Revision: 7}, "", nil},
		{"resourceVersion=7&limit=2", registry.Freshness{Revision: 7, Exact: true}, "", nil},
		{"resourceVersion=0&limit=2", any, "", nil},
		{"resourceVersion=7&limit=2&resourceVersionMatch=NotOlderThan", registry.Freshness{Revision: 7}, "", nil},
		{"resourceVersion=7&resourceVersionMatch=Exact", registry.Freshness{Revision: 7, Exact: true}, "", nil},
		{"resourceVersion=0&resourceVersionMatch=NotOlderThan", any, "", nil},
		{"resourceVersion=0&resourceVersionMatch=Exact", newest, "", []string{`resourceVersionMatch "exact" is forbidden for resourceVersion "0"`}},
		{"resourceVersionMatch=Exact", newest, "", []string{"resourceVersionMatch is forbidden unless resourceVersion is provided"}},
		{"resourceVersion=7&resourceVersionMatch=Bogus", newest, "", []string{`Unsupported value: "Bogus": supported values: "Exact", "NotOlderThan", ""`}},
		{"resourceVersion=7&resourceVersionMatch=Exact&continue=x", newest, "", []string{noContinue}},
		{"resourceVersion=7&continue=x", newest, "", []string{"specifying resource version is not allowed when using continue"}},
		{"resourceVersion=0&continue=x", newest, "", nil},
		{"resourceVersion=x", newest, "", []string{`resourceVersion: Invalid value: "x": strconv.ParseUint: parsing "x": invalid syntax`}},
		{"sendInitialEvents=true", newest, "", []string{"sendInitialEvents: Forbidden: sendInitialEvents is forbidden for list"}},
		{"sendInitialEvents=false&resourceVersion=7&resourceVersionMatch=NotOlderThan", newest, "", []string{"sendInitialEvents is forbidden for list"}},

		{"watch=1", newest, "true", nil},
		{"watch=1&resourceVersion=0", any, "true", nil},
		{"watch=1&resourceVersion=7", registry.Freshness{Revision: 7}, "", nil},
		{"watch=1&resourceVersion=7&limit=2", registry.Freshness{Revision: 7}, "", nil},
		{"watch=1&resourceVersion=7&continue=x", registry.Freshness{Revision: 7}, "", nil},
		{"watch=1&continue=x", newest, "", []string{noContinue}},
		{"watch=1&resourceVersion=0&continue=x", newest, "", []string{noContinue}},
		{"watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan", newest, "true", nil},
		{"watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&resourceVersion=0", any, "true", nil},
		{"watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&resourceVersion=7", registry.Freshness{Revision: 7}, "true", nil},
		{"watch=1&sendInitialEvents=false&resourceVersionMatch=NotOlderThan&resourceVersion=7", registry.Freshness{Revision: 7}, "false", nil},
		{"watch=1&sendInitialEvents=false&resourceVersionMatch=NotOlderThan", newest, "false", nil},
		{"watch=1&sendInitialEvents=true", newest, "", []string{needsMatch}},
		{"watch=1&sendInitialEvents=false", newest, "", []string{needsMatch}},
		{"watch=1&sendInitialEvents=true&continue=x", newest, "", []string{needsMatch}},
		{"watch=1&sendInitialEvents=true&resourceVersionMatch=Exact", newest, "", []string{needsMatch, notExact}},
		{"watch=1&sendInitialEvents=true&resourceVersionMatch=Bogus", newest, "", []string{needsMatch, notBogus}},
		{"watch=1&sendInitialEvents=true&resourceVersionMatch=Exact&continue=x", newest, "", []string{needsMatch, notExact, noContinue}},
		{"watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&continue=x", newest, "", []string{noContinue}},
		{"watch=1&resourceVersionMatch=NotOlderThan", newest, "", []string{needsEvents}},
		{"watch=1&resourceVersionMatch=NotOlderThan&resourceVersion=7", newest, "", []string{needsEvents}},
		{"watch=1&resourceVersionMatch=Exact", newest, "", []string{needsEvents, notExact}},
		{"watch=1&resourceVersionMatch=NotOlderThan&continue=x", newest, "", []string{needsEvents, noContinue}},
	} {
		q, err := url.ParseQuery(c.query)
		if err != nil {
			t.Fatal(err)
		}
		o, err := ParseList(q, &resource.Face{Of: &resource.Kind{Identity: &resource.Identity{}}})
		if len(c.errs) > 0 {
			want := strings.Join(c.errs, ", ")
			if len(c.errs) > 1 {
				want = "[" + want + "]"
			}
			if err == nil || !strings.Contains(err.Error(), want) || len(c.errs) == 1 && strings.Contains(err.Error(), "[") {
				t.Errorf("%s: %v, want %s", c.query, err, want)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", c.query, err)
			continue
		}
		initial := ""
		if o.InitialEvents != nil {
			initial = map[bool]string{true: "true", false: "false"}[*o.InitialEvents]
		}
		if o.Fresh != c.fresh || initial != c.initial {
			t.Errorf("%s: %+v with initial events %q, want %+v with %q", c.query, o.Fresh, initial, c.fresh, c.initial)
		}
	}
}
