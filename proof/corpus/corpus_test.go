// Package corpus_test replays the recorded stories of internal/corpus and compares the server's answers with the
// recorded ones.
package corpus_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/corpus"
	"github.com/millrace/millrace/millracetest"
)

// onPurpose are the steps with deliberate differences, with the reasons.
var onPurpose = map[string]string{
	"resource version on create":              "the caller's mistake is a 400, not a 500",
	"apply strict unknown":                    "the caller's mistake is a 400, not a 500",
	"version in the future":                   "the present version in the message depends on how much a server writes at its start",
	"api":                                     "the address is the server's own",
	"table of DaemonSet ds":                   "the deprecated annotation of a daemon set is an ordinary one here, so its row shows it",
	"status is not for the main path":         "the entry of a scale has its time, which kube-apiserver forgets",
	"status":                                  "the same entry",
	"delete foreground":                       "the same entry",
	"watch the future":                        "a watch from a revision that the store never gave ends with 410: the store was restored",
	"v1beta2 kinds":                           "1.37 stores taint rules as v1",
	"claim labelled in v1beta2":               "the message does not show kube-apiserver's own types",
	"claim spec changed in v1beta1":           "the same message",
	"claim with a count alone in v1beta1":     "what a request without a class lacks is not also refused",
	"create StatefulSet sts":                  "1.37 fills in how many pods may be unavailable in an update",
	"create CSIDriver defaults.example.com":   "1.37 fills in whether a missing driver prevents scheduling",
	"table of StatefulSet sts":                "its managed fields show the same",
	"table of CSIDriver defaults.example.com": "its managed fields show the same",
	"storage.k8s.io/v1":                       "1.37 has the status of CSI nodes as well",
	"certificates.k8s.io/v1":                  "1.37 has cluster trust bundles as well",
	"admissionregistration.k8s.io/v1":         "mutating policies are stored as v1, which is newer",
}

// configurations are the runtime configurations with which stories were recorded.
var configurations = map[string]map[string]string{"versions": {"api/beta": "true"}}

func TestEveryExcuseBelongsToAStep(t *testing.T) {
	excuses := maps.Clone(onPurpose)
	for _, s := range corpus.Stories() {
		for _, step := range s {
			delete(excuses, step.Name)
		}
	}
	for name := range excuses {
		t.Errorf("no story has a step %q that could be excused", name)
	}
}

func TestAnswersAreThoseOfAKubeAPIServer(t *testing.T) {
	all := corpus.Stories()
	stores := map[string]func(*testing.T) millrace.Options{
		"memory": func(*testing.T) millrace.Options { return millrace.Options{} },
		"log":    func(t *testing.T) millrace.Options { return millrace.Options{Data: t.TempDir()} },
		"uncached": func(*testing.T) millrace.Options {
			return millrace.Options{Uncached: []string{"configmaps", "pods", "deployments.apps", "services"}}
		},
	}
	for name, options := range stores {
		for story, steps := range all {
			t.Run(name+"/"+story, func(t *testing.T) {
				t.Parallel()
				o := options(t)
				o.RuntimeConfig = configurations[story]
				o.Controllers, o.NoScheduler, o.ServiceRange = []string{}, true, "10.0.0.0/24"
				o.TokenFile = filepath.Join(t.TempDir(), "tokens")
				if err := os.WriteFile(o.TokenFile, []byte("secret,admin,an-uid,system:masters\n"), 0o600); err != nil {
					t.Fatal(err)
				}
				c := millracetest.Start(t, o)
				replay(t, steps, c.Config())
			})
		}
	}
}

func replay(t *testing.T, s corpus.Story, config *rest.Config) {
	config.CertData, config.KeyData, config.BearerToken = nil, nil, "secret"
	transport, err := rest.TransportFor(config)
	if err != nil {
		t.Fatal(err)
	}
	saved := map[string]string{}
	for _, step := range s {
		body := []byte(step.Body)
		var text string
		if json.Unmarshal(body, &text) == nil {
			body = []byte(text) // what is not JSON, or not JSON alone, is recorded as text
		}
		got := request(t, transport, config.Host+fill(step.Path, saved), step.Method, step.Headers, []byte(fill(string(body), saved)), step.Body != nil, step.Watch)
		for name, path := range step.Save {
			saved[name] = fmt.Sprint(dig(got["body"], path))
		}
		calmed, want := calm(got, ""), calm(recorded(t, step), "")
		if step.Watch > 0 {
			delete(want.(map[string]any), "warnings")
		}
		var found []string
		differences(want, calmed, "", &found)
		if _, excused := onPurpose[step.Name]; len(found) > 0 && !excused {
			t.Errorf("%s: %s %s\n\t%s", step.Name, step.Method, step.Path, strings.Join(found[:min(len(found), 6)], "\n\t"))
		}
	}
}

// recorded returns the recorded answer of a step in the form of request's result.
func recorded(t *testing.T, step corpus.Step) map[string]any {
	t.Helper()
	want := map[string]any{"status": float64(step.Want.Status)}
	if step.Want.Body != nil {
		var body any
		if err := json.Unmarshal(step.Want.Body, &body); err != nil {
			t.Fatal(err)
		}
		want["body"] = body
	}
	if step.Want.Warnings != nil {
		want["warnings"] = texts(step.Want.Warnings)
	}
	return want
}

func texts(in []string) []any {
	out := make([]any, len(in))
	for i := range in {
		out[i] = in[i]
	}
	return out
}

func request(t *testing.T, transport http.RoundTripper, url, method string, headers map[string]string, body []byte, hasBody bool, events int) map[string]any {
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	if events > 0 {
		ctx, cancel = context.WithTimeout(t.Context(), 1500*time.Millisecond)
	}
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header = http.Header{"Accept": {"application/json"}, "User-Agent": {"corpus/1"}}
	if hasBody {
		req.Body, req.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		req.Header.Set("Content-Type", "application/json")
	}
	for k, v := range headers {
		req.Header.Set(k, v)
	}
	res, err := transport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if events > 0 && res.StatusCode == http.StatusOK {
		return map[string]any{"status": float64(res.StatusCode), "body": readEvents(res.Body, events)}
	}
	raw, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]any{"status": float64(res.StatusCode)}
	var v any
	if json.Unmarshal(raw, &v) != nil {
		v = string(raw)
	}
	out["body"] = v
	if w := res.Header.Values("Warning"); len(w) > 0 {
		out["warnings"] = texts(w)
	}
	return out
}

func readEvents(r io.Reader, most int) []any {
	events := []any{}
	lines := bufio.NewReader(r)
	for len(events) < most {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			break
		}
		var v any
		if json.Unmarshal(line, &v) == nil {
			events = append(events, v)
		}
	}
	return events
}
