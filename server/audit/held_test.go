package audit

import (
	"bytes"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/server/auth"
)

// stages returns the stages that are on file.
func stages(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for line := range strings.Lines(string(text)) {
		_, rest, _ := strings.Cut(line, `"stage":"`)
		stage, _, _ := strings.Cut(rest, `"`)
		out = append(out, stage)
	}
	return strings.Join(out, " ")
}

func TestTheBeginningOfAGetIsWrittenWithItsEndOrSoon(t *testing.T) {
	for _, one := range []struct {
		mode, verb, subresource string
		held                    bool
	}{
		{"", "get", "", true}, {Blocking, "get", "", true}, {BlockingStrict, "get", "", false},
		{"", "list", "", false}, {"", "update", "", false}, {"", "get", "exec", false},
	} {
		synctest.Test(t, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "audit.log")
			b, err := FileOptions{Path: path, Mode: one.mode}.open(slog.New(slog.DiscardHandler))
			if err != nil {
				t.Fatal(err)
			}
			l := &Log{backends: []*backend{b}, policy: &Policy{Rules: []Rule{{level: Metadata}}}}
			begin := func() *Record {
				t.Helper()
				at := auth.Attributes{Verb: one.verb, Subresource: one.subresource, IsResource: true}
				r, err := l.Begin(httptest.NewRequest(http.MethodGet, "/", nil), "id", at, time.Now())
				if err != nil {
					t.Fatal(err)
				}
				return r
			}
			first := begin()
			if held := stages(t, path) == ""; held != one.held {
				t.Errorf("%+v: on file are %q", one, stages(t, path))
			}
			first.Complete(http.StatusOK, nil)
			if got := stages(t, path); got != "RequestReceived ResponseComplete" {
				t.Errorf("%+v: on file are %q", one, got)
			}
			second := begin()
			second.Annotate("later", "than the beginning")
			time.Sleep(2 * heldFor)
			synctest.Wait()
			if got := stages(t, path); got != "RequestReceived ResponseComplete RequestReceived" {
				t.Errorf("%+v: a request that lasts has %q", one, got)
			}
			second.Complete(http.StatusOK, nil)
			if got := stages(t, path); got != "RequestReceived ResponseComplete RequestReceived ResponseComplete" {
				t.Errorf("%+v: a request that lasted has %q", one, got)
			}
			begin()
			begin().Complete(http.StatusOK, nil)
			begin()
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
			if got := stages(t, path); strings.Count(got, "RequestReceived") != 5 || strings.Count(got, "ResponseComplete") != 3 {
				t.Errorf("%+v: at the end there are %q", one, got)
			}
			if text, err := os.ReadFile(path); err != nil || bytes.Count(text, []byte("than the beginning")) != 1 {
				t.Errorf("%+v: an annotation is not in one event: %s, %v", one, text, err)
			}
			time.Sleep(time.Second)
			if n := b.failed.Load(); n != 0 {
				t.Errorf("%+v: %d events could not be written", one, n)
			}
		})
	}
}
