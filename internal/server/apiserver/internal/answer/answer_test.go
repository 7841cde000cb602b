package answer_test

import (
	"errors"
	"net/http"
	"reflect"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/millrace/millrace/internal/server/apiserver/internal/answer"
	"github.com/millrace/millrace/internal/server/registry"
	"github.com/millrace/millrace/internal/server/resource"
)

func TestAnObjectIsTheSameInEveryFormat(t *testing.T) {
	w := newWorld(t)
	stored := w.create(1, 10)
	cached, err := w.storage.Get(t.Context(), "default", "m000", registry.Freshness{})
	if err != nil {
		t.Fatal(err)
	}
	ways := map[string]func(*answer.Answer) error{
		"cached": func(a *answer.Answer) error { return a.SendCached(http.StatusOK, cached) },
		"stored": func(a *answer.Answer) error { return a.SendStored(http.StatusOK, stored) },
		"object": func(a *answer.Answer) error {
			return a.SendObject(http.StatusOK, stored.Object.DeepCopyObject().(resource.Object))
		},
	}
	for _, accept := range []string{asJSON, asYAML, asProtobuf, asPartial} {
		var first map[string]any
		for name, send := range ways {
			a, out := w.asked(accept, "")
			if err := send(a); err != nil {
				t.Fatalf("%s, %s: %v", accept, name, err)
			}
			got := read(t, out, &corev1.ConfigMap{})
			if got["kind"] == nil || got["apiVersion"] == nil || out.Code != http.StatusOK || a.Writer.Code != out.Code || a.Writer.Bytes == 0 {
				t.Errorf("%s, %s: code %d, %d bytes, %v", accept, name, out.Code, a.Writer.Bytes, got)
			}
			if first == nil {
				first = got
			}
			if !reflect.DeepEqual(got, first) {
				t.Errorf("%s, %s:\n%v\nnot\n%v", accept, name, got, first)
			}
		}
		if _, has := first["data"]; has == (accept == asPartial) {
			t.Errorf("%s shows %v", accept, first)
		}
	}
}

func TestAListIsTheSameInEveryFormat(t *testing.T) {
	for name, count := range map[string]int{"empty": 0, "one": 1, "many": 40} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.create(count, 10)
			l := w.list(0)
			var first map[string]any
			for _, accept := range []string{asJSON, asYAML, asProtobuf} {
				for _, encoding := range []string{"", "gzip"} {
					a, out := w.asked(accept, encoding)
					if err := a.SendList(l); err != nil {
						t.Fatal(err)
					}
					if compressed := out.Header().Get("Content-Encoding") == "gzip"; compressed != (count == 40 && encoding == "gzip" && accept == asJSON) {
						t.Errorf("%s of %d objects is compressed: %t", accept, count, compressed)
					}
					got := read(t, out, &corev1.ConfigMapList{})
					if first == nil {
						first = got
					}
					if items, ok := got["items"].([]any); !ok || len(items) != count {
						if count > 0 || accept == asJSON { // the library decodes an empty list in protobuf as null
							t.Errorf("%s: %d items", accept, len(items))
						}
						continue
					}
					if !reflect.DeepEqual(got, first) {
						t.Errorf("%s %s:\n%v\nnot\n%v", accept, encoding, got, first)
					}
				}
			}
		})
	}
}

// A list that is longer than a chunk contains each object once.
func TestALongListArrivesWhole(t *testing.T) {
	w := newWorld(t)
	w.create(30, 30<<10)
	for _, encoding := range []string{"", "gzip"} {
		a, out := w.asked(asJSON, encoding)
		if err := a.SendList(w.list(0)); err != nil {
			t.Fatal(err)
		}
		items := read(t, out, nil)["items"].([]any)
		if len(items) != 30 {
			t.Fatalf("%d items", len(items))
		}
		for i, o := range items {
			if got := o.(map[string]any)["data"].(map[string]any)["k"].(string); len(got) != 30<<10 {
				t.Errorf("item %d has %d bytes", i, len(got))
			}
		}
	}
}

func TestAPageHasItsContinueToken(t *testing.T) {
	w := newWorld(t)
	w.create(5, 10)
	for _, accept := range []string{asJSON, asYAML, asProtobuf, asTable, asPartials} {
		a, out := w.asked(accept, "")
		if err := a.SendList(w.list(2)); err != nil {
			t.Fatal(err)
		}
		meta := read(t, out, &corev1.ConfigMapList{})["metadata"].(map[string]any)
		if meta["continue"] == "" || meta["continue"] == nil || meta["remainingItemCount"] != 3.0 || meta["resourceVersion"] == "" {
			t.Errorf("%s: %v", accept, meta)
		}
	}
}

func TestATableHasTheColumnsAndARowForEachObject(t *testing.T) {
	w := newWorld(t)
	w.create(3, 10)
	a, out := w.asked(asTable, "")
	if err := a.SendList(w.list(0)); err != nil {
		t.Fatal(err)
	}
	table := read(t, out, nil)
	rows := table["rows"].([]any)
	if table["kind"] != "Table" || len(rows) != 3 || len(table["columnDefinitions"].([]any)) != len(rows[0].(map[string]any)["cells"].([]any)) {
		t.Errorf("the table is %v", table)
	}
	if got := rows[2].(map[string]any)["cells"].([]any)[0]; got != "m002" {
		t.Errorf("the last row is of %v", got)
	}
}

func TestAnObjectIsNoListOfMetadata(t *testing.T) {
	w := newWorld(t)
	stored := w.create(1, 10)
	a, _ := w.asked(asPartials, "")
	err := a.SendObject(http.StatusOK, stored.Object)
	if !apierrors.IsNotAcceptable(err) {
		t.Errorf("the answer is %v", err)
	}
}

var errGone = errors.New("the client has gone")

func TestAClientThatDisconnectsEndsAList(t *testing.T) {
	w := newWorld(t)
	w.create(30, 30<<10)
	a, out := w.asked(asJSON, "")
	gone := &leaving{ResponseWriter: out}
	a.Writer = &answer.Response{ResponseWriter: gone}
	if err := a.SendList(w.list(0)); err != nil {
		t.Fatal(err)
	}
	if gone.writes != 1 {
		t.Errorf("%d writes to a client that has disconnected", gone.writes)
	}
}

// leaving is a client that has closed its connection.
type leaving struct {
	http.ResponseWriter
	writes int
}

func (l *leaving) Write([]byte) (int, error) {
	l.writes++
	return 0, errGone
}

func TestStatusesAreShownInTheRequestedFormat(t *testing.T) {
	w := newWorld(t)
	s := &apierrors.NewNotFound(w.kind.GroupResource(), "none").ErrStatus
	for accept, want := range map[string]string{asJSON: asJSON, asYAML: asYAML, asProtobuf: asProtobuf, asTable: asJSON} {
		a, out := w.asked(accept, "")
		answer.WriteStatus(a.Writer, a.Format, s)
		if out.Code != http.StatusNotFound || out.Header().Get("Content-Type") != want {
			t.Errorf("%s: %d, %s", accept, out.Code, out.Header().Get("Content-Type"))
		}
		if !strings.Contains(out.Body.String(), "not found") {
			t.Errorf("%s: %q", accept, out.Body)
		}
	}
}
