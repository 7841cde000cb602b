package resourcetest

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/millrace/millrace/internal/server/resource"
)

// Answer is Kubernetes' response to the creation of an object: the causes of its refusal, or warnings.
type Answer struct {
	Body     json.RawMessage `json:"body"`
	Causes   []string        `json:"causes,omitempty"`
	Warnings []string        `json:"warnings,omitempty"`
}

// Answers compares with the responses in a directory, whose files contain one JSON object per line.
func Answers(t *testing.T, kinds []*resource.Kind, directory string) {
	files, err := filepath.Glob(filepath.Join(directory, "*.jsonl"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no answers in %s: %v", directory, err)
	}
	c := faces(t, kinds)
	for _, name := range files {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		scanner := bufio.NewScanner(bytes.NewReader(data))
		scanner.Buffer(nil, len(data)+1)
		for scanner.Scan() {
			var a Answer
			if err := json.Unmarshal(scanner.Bytes(), &a); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			a.compare(t, faceOf(t, c, string(a.Body)))
		}
	}
}

func (a *Answer) compare(t *testing.T, f *resource.Face) {
	t.Helper()
	o, err := Decode(f, a.Body)
	if err != nil {
		t.Errorf("%s: %v", a.Body, err)
		return
	}
	if f.Of.Namespaced && o.GetNamespace() == "" {
		o.SetNamespace("default")
	}
	if got := Causes(Create(f, o)); !slices.Equal(got, a.Causes) {
		t.Errorf("%s\nwant%s\ngot%s", a.Body, lines(a.Causes), lines(got))
		return
	}
	if len(a.Causes) > 0 {
		return
	}
	if got := f.Of.Main.Warnings(context.Background(), o, nil); !slices.Equal(got, a.Warnings) {
		t.Errorf("%s\nwant warnings%s\ngot%s", a.Body, lines(a.Warnings), lines(got))
	}
}
