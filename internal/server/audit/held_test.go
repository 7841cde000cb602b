package audit

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/internal/server/auth"
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

// Records are used again, while those are written that are held for too long: each event must have what belongs to its
// request.
func TestRequestsAtTheSameTimeKeepTheirEventsApart(t *testing.T) {
	for name, omitted := range map[string]uint8{"all": 0, "without the end": 1 << ResponseComplete} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const clients, each = 200, 50
				path := filepath.Join(t.TempDir(), "audit.log")
				b, err := FileOptions{Path: path}.open(slog.New(slog.DiscardHandler))
				if err != nil {
					t.Fatal(err)
				}
				l := &Log{backends: []*backend{b}, policy: &Policy{Rules: []Rule{{level: Metadata, omitted: omitted}}}}
				var all sync.WaitGroup
				for c := range clients {
					all.Go(func() {
						for i := range each {
							id := fmt.Sprintf("%d-%d", c, i)
							at := auth.Attributes{Verb: "get", IsResource: true, Name: "name-" + id}
							r, err := l.Begin(httptest.NewRequest(http.MethodGet, "/path-"+id, nil), id, at, time.Now())
							if err != nil {
								t.Error(err)
								return
							}
							r.Annotate("mine", "note-"+id)
							time.Sleep(time.Duration(i*c%7) * heldFor / 3)
							r.Complete(http.StatusOK, nil)
						}
					})
				}
				all.Wait()
				if err := l.Close(); err != nil {
					t.Fatal(err)
				}
				text, err := os.ReadFile(path)
				if err != nil {
					t.Fatal(err)
				}
				seen := map[string]int{}
				for line := range strings.Lines(string(text)) {
					var e struct {
						AuditID, Stage, RequestURI string
						ObjectRef                  struct{ Name string }
						Annotations                map[string]string
					}
					if err := json.Unmarshal([]byte(line), &e); err != nil {
						t.Fatal(err)
					}
					seen[e.AuditID+" "+e.Stage]++
					if e.RequestURI != "/path-"+e.AuditID || e.ObjectRef.Name != "name-"+e.AuditID {
						t.Errorf("an event has another request's parts: %s", line)
					}
					if note := e.Annotations["mine"]; e.Stage == "ResponseComplete" && note != "note-"+e.AuditID {
						t.Errorf("an event has another request's annotation: %s", line)
					}
				}
				want := clients * each
				if omitted == 0 {
					want *= 2
				}
				if len(seen) != want || bytes.Count(text, []byte("\n")) != want {
					t.Errorf("%d events of %d stages, want %d", bytes.Count(text, []byte("\n")), len(seen), want)
				}
			})
		})
	}
}
