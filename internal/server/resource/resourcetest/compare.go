package resourcetest

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/millrace/millrace/internal/corpus"
	"github.com/millrace/millrace/internal/server/resource"
)

// Exception excludes a difference that is intended, or that other parts of the server cause.
type Exception func(step, path string) bool

// Except excludes a path and everything below it, in the steps whose name begins with step: Except("create Service",
// "spec.clusterIP").
func Except(step, path string) Exception {
	return func(s, p string) bool {
		return strings.HasPrefix(s, step) && (p == path || strings.HasPrefix(p, path+".") || strings.HasPrefix(p, path+"["))
	}
}

// Defaults creates every object of the story "defaults" and compares all of it but its metadata.
func Defaults(t *testing.T, kinds []*resource.Kind, except ...Exception) {
	c := faces(t, kinds)
	for _, s := range Story(t, "defaults") {
		f, ok := c.Face(at(s.Path))
		if !ok || s.Method != "POST" {
			continue
		}
		t.Run(s.Name, func(t *testing.T) {
			o, err := Decode(f, s.Body)
			if err != nil {
				t.Fatal(err)
			}
			errs := Create(f, o)
			if s.Want.Status >= 300 {
				sameCauses(t, s, errs)
				return
			}
			if len(errs) > 0 {
				t.Fatalf("refused:%s", lines(Causes(errs)))
			}
			var answer runtime.Object = o
			if f.From != nil {
				answer = f.From(o)
			}
			for _, d := range differences(tree(t, s.Want.Body), tree(t, marshal(t, answer)), "") {
				if !excepted(except, s.Name, d.path) {
					t.Error(d)
				}
			}
		})
	}
}

func excepted(except []Exception, step, path string) bool {
	if path == "metadata" || strings.HasPrefix(path, "metadata.") {
		return true
	}
	return slices.ContainsFunc(except, func(e Exception) bool { return e(step, path) })
}

// Tables compares columns and cells of every object in the story "defaults".
func Tables(t *testing.T, kinds []*resource.Kind, except ...Exception) {
	c := faces(t, kinds)
	made := map[string]json.RawMessage{}
	for _, s := range Story(t, "defaults") {
		name, isTable := strings.CutPrefix(s.Name, "table of ")
		f, ok := c.Face(at(s.Path))
		switch {
		case !ok:
		case !isTable:
			made[strings.TrimPrefix(s.Name, "create ")] = s.Want.Body
		default:
			t.Run(s.Name, func(t *testing.T) { sameTable(t, s, f, made[name], except) })
		}
	}
}

func sameTable(t *testing.T, s corpus.Step, f *resource.Face, object json.RawMessage, except []Exception) {
	var want metav1.Table
	if err := json.Unmarshal(s.Want.Body, &want); err != nil {
		t.Fatal(err)
	}
	if f.Of.Row == nil {
		if n := len(want.ColumnDefinitions); n != 2 || want.ColumnDefinitions[1].Name != "Created At" {
			t.Errorf("no columns, want %d", n)
		}
		return
	}
	columns := slices.Clone(f.Of.Columns)
	for i := range columns {
		columns[i].Description = "WORDS"
	}
	report := func(part string, want, got any) {
		for _, d := range differences(tree(t, marshal(t, want)), tree(t, marshal(t, got)), part) {
			if !excepted(except, s.Name, d.path) {
				t.Error(d)
			}
		}
	}
	report("columns", want.ColumnDefinitions, columns)
	if len(want.Rows) == 0 {
		return
	}
	object = []byte(strings.NewReplacer(
		`"eventTime":"TIME"`, `"eventTime":"2026-01-02T03:04:05.000000Z"`, `"TIME"`, `"2026-01-02T03:04:05Z"`, `"PORT"`, `30123`, `"IP"`, `"10.0.0.7"`,
	).Replace(string(object)))
	o, err := Decode(f, object)
	if err != nil {
		t.Fatal(err)
	}
	row := f.Of.Row(o)
	report("cells", calm(want.Rows[0].Cells), calm(row.Cells))
	report("conditions", want.Rows[0].Conditions, row.Conditions)
}

var (
	age  = regexp.MustCompile(`^(\d+[smhd])+$|^<unknown>$|^<invalid>$`)
	date = regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$`)
	ip   = regexp.MustCompile(`^10\.\d+\.\d+\.\d+$`)
	port = regexp.MustCompile(`:(3[0-2]\d{3}|PORT)/`)
)

func calm(cells []any) []any {
	out := slices.Clone(cells)
	for i, c := range out {
		if s, ok := c.(string); ok {
			switch s = port.ReplaceAllString(s, ":PORT/"); {
			case age.MatchString(s):
				s = "AGE"
			case date.MatchString(s):
				s = "TIME"
			case ip.MatchString(s):
				s = "IP"
			}
			out[i] = s
		}
	}
	return out
}

// Invalid sends the requests of the story "invalid" and compares field, reason and message of every error. Bodies that
// cannot be decoded are skipped.
func Invalid(t *testing.T, kinds []*resource.Kind, except ...Exception) {
	c := faces(t, kinds)
	for _, s := range Story(t, "invalid") {
		f, ok := c.Face(at(s.Path))
		if !ok || s.Method != "POST" || s.Want.Status == 400 || excepted(except, s.Name, "") {
			continue
		}
		t.Run(s.Name, func(t *testing.T) {
			o, err := Decode(f, s.Body)
			if err != nil {
				t.Fatal(err)
			}
			sameCauses(t, s, Create(f, o))
		})
	}
}

func sameCauses(t *testing.T, s corpus.Step, errs field.ErrorList) {
	t.Helper()
	var status struct {
		Details struct {
			Causes []cause `json:"causes"`
		} `json:"details"`
	}
	if err := json.Unmarshal(s.Want.Body, &status); err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, c := range status.Details.Causes {
		want = append(want, c.String())
	}
	if got := Causes(errs); !slices.Equal(want, got) {
		t.Errorf("want%s\ngot%s", lines(want), lines(got))
	}
}
