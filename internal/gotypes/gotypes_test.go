package gotypes_test

import (
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/gotypes"
)

type Inner struct{ A string }

type embedded struct{ B string }

type outer struct {
	Inner
	embedded
	Said    Inner   `json:",inline"`
	Named   Inner   `json:"named,omitempty"`
	Pointer *string `json:",omitzero"`
	Number  int     `json:"number,string"`
	Dash    string  `json:"-"`
	//lint:ignore SA5008 this is how a field is called -
	Minus string `json:"-,"`
	//lint:ignore U1000 it is there to be left out
	private string
}

func TestFieldsAreThoseThatJSONSees(t *testing.T) {
	type seen struct {
		goName, json                  string
		inlined, omitEmpty, omitZeros bool
	}
	var got []seen
	for f := range gotypes.Fields(reflect.TypeFor[outer]()) {
		got = append(got, seen{f.Name, f.JSON, f.Inlined, f.OmitEmpty, f.OmitZero})
	}
	want := []seen{
		{"Inner", "", true, false, false}, {"embedded", "", true, false, false}, {"Said", "", true, false, false},
		{"Named", "named", false, true, false}, {"Pointer", "", false, false, true}, {"Number", "number", false, false, false},
		{"Minus", "-", false, false, false},
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %v", got)
	}
	if f, ok := gotypes.FieldNamed(reflect.TypeFor[outer](), "number"); !ok || !slices.Equal(f.Others, []string{"string"}) {
		t.Errorf("the options of number are %q", f.Others)
	}
	if _, ok := gotypes.FieldNamed(reflect.TypeFor[outer](), "private"); ok {
		t.Error("a field is found that is not exported")
	}
}

func TestATypeHasTheMethodsOfItsPointer(t *testing.T) {
	moment := reflect.TypeFor[time.Time]()
	if !gotypes.MarshalsJSON(moment) || !gotypes.UnmarshalsJSON(moment) || !gotypes.MarshalsText(moment) || !gotypes.UnmarshalsText(moment) {
		t.Error("a time has a form of its own")
	}
	if gotypes.MarshalsJSON(reflect.TypeFor[Inner]()) {
		t.Error("a plain struct has no form of its own")
	}
}

func TestContainsLooksEverywhereButIntoWhatIsWhole(t *testing.T) {
	type whole struct{ inside any }
	is := func(v reflect.Value) (found, entire bool) {
		return v.Kind() == reflect.String && v.String() == "x", v.Type() == reflect.TypeFor[whole]()
	}
	x := "x"
	for _, in := range []any{x, &x, []any{1, x}, [1]string{x}, map[string]any{"k": []string{x}}, Inner{x}, struct{ i *Inner }{&Inner{x}}} {
		if !gotypes.Contains(reflect.ValueOf(&in), is) {
			t.Errorf("nothing is found in %v", in)
		}
	}
	for _, in := range []any{"y", map[string]int{"x": 1}, (*string)(nil), whole{x}, []whole{{x}}} {
		if gotypes.Contains(reflect.ValueOf(&in), is) {
			t.Errorf("something is found in %v", in)
		}
	}
}
