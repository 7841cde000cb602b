package millrace_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/millrace/millrace"
)

// A story is a list of requests with the answers that a kube-apiserver gave. Ours must give the same, but for the
// differences below.
type story []struct {
	Name    string            `json:"name"`
	Method  string            `json:"method"`
	Path    string            `json:"path"`
	Headers map[string]string `json:"headers"`
	Body    json.RawMessage   `json:"body"`
	Watch   int               `json:"watch"`
	Save    map[string]string `json:"save"`
	Want    map[string]any    `json:"want"`
}

// onPurpose are the differences that stay, with their reasons.
var onPurpose = map[string]string{
	"resource version on create":      "the caller's mistake is a 400, not a 500",
	"apply strict unknown":            "the caller's mistake is a 400, not a 500",
	"version in the future":           "the present version in the message depends on how much a server writes at its start",
	"api":                             "the address is the server's own",
	"table of DaemonSet ds":           "the deprecated annotation of a daemon set is an ordinary one here, so its row shows it",
	"status is not for the main path": "the entry of a scale has its time, which kube-apiserver forgets",
	"status":                          "the same entry",
	"delete foreground":               "the same entry",
	"admissionregistration.k8s.io/v1": "mutating policies are stored as v1, which is newer",
}

// corpusFolder is where recorded stories are, if anywhere.
func corpusFolder() string {
	if f := os.Getenv("MILLRACE_CORPUS"); f != "" {
		return f
	}
	return filepath.Join("..", "shared", "corpus")
}

func TestAnswersAreThoseOfAKubeAPIServer(t *testing.T) {
	files, _ := filepath.Glob(filepath.Join(corpusFolder(), "*.json"))
	if len(files) == 0 {
		t.Skip("no recorded stories at hand: set MILLRACE_CORPUS to their folder")
	}
	stores := map[string]func(*testing.T) millrace.Options{
		"memory": func(*testing.T) millrace.Options { return millrace.Options{} },
		"etcd":   func(t *testing.T) millrace.Options { return millrace.Options{Data: t.TempDir()} },
		"uncached": func(*testing.T) millrace.Options {
			return millrace.Options{Uncached: []string{"configmaps", "pods", "deployments.apps", "services"}}
		},
	}
	for name, options := range stores {
		for _, f := range files {
			t.Run(name+"/"+strings.TrimSuffix(filepath.Base(f), ".json"), func(t *testing.T) {
				t.Parallel()
				o := options(t)
				o.Controllers, o.NoScheduler, o.ServiceRange = []string{}, true, "10.0.0.0/24"
				o.TokenFile = filepath.Join(t.TempDir(), "tokens")
				if err := os.WriteFile(o.TokenFile, []byte("secret,admin,an-uid,system:masters\n"), 0o600); err != nil {
					t.Fatal(err)
				}
				c := start(t, o)
				replay(t, c.Config(), f)
			})
		}
	}
}

func replay(t *testing.T, config *rest.Config, file string) {
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var s story
	if err := json.Unmarshal(b, &s); err != nil {
		t.Fatal(err)
	}
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
		calmed, want := calm(got, ""), calm(step.Want, "")
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
		all := make([]any, len(w))
		for i := range w {
			all[i] = w[i]
		}
		out["warnings"] = all
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

var hole = regexp.MustCompile(`\{([A-Z][A-Z0-9]*)\}`)

func fill(text string, saved map[string]string) string {
	return hole.ReplaceAllStringFunc(text, func(h string) string {
		if v, ok := saved[h[1:len(h)-1]]; ok {
			return v
		}
		return h
	})
}

func dig(v any, path string) any {
	for part := range strings.SplitSeq(path, ".") {
		switch x := v.(type) {
		case map[string]any:
			v = x[part]
		case []any:
			i, err := strconv.Atoi(part)
			if err != nil || i >= len(x) {
				return "MISSING"
			}
			v = x[i]
		default:
			return "MISSING"
		}
	}
	return v
}

// What changes from run to run is replaced on both sides.
var (
	volatile = map[string]string{"uid": "UID", "resourceVersion": "RV", "creationTimestamp": "TIME", "deletionTimestamp": "TIME", "time": "TIME",
		"continue": "CONTINUE", "clusterIP": "IP", "nodePort": "PORT", "lastTransitionTime": "TIME", "firstTimestamp": "TIME",
		"lastTimestamp": "TIME", "eventTime": "TIME", "lastUpdateTime": "TIME", "lastHeartbeatTime": "TIME", "startTime": "TIME",
		"resourceVersionMatch": "RV", "expirationTimestamp": "TIME", "token": "TOKEN", "healthCheckNodePort": "PORT"}
	generated = regexp.MustCompile(`(-gen-)[a-z0-9]{5}`)
	age       = regexp.MustCompile(`^(\d+[smhd])+$|^<unknown>$|^<invalid>$`)
	address   = regexp.MustCompile(`^10\.\d+\.\d+\.\d+$`)
	uuids     = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)
	stamps    = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z`)
	ports     = regexp.MustCompile(`:3[0-2]\d{3}/`)
	numbered  = regexp.MustCompile(`(precondition|record) \(\d+\)`)
)

func calm(v any, key string) any {
	switch x := v.(type) {
	case map[string]any:
		out := map[string]any{}
		_, column := x["priority"]
		_, format := x["format"]
		for k, inner := range x {
			if column && format && k == "description" {
				out[k] = "WORDS"
				continue
			}
			out[k] = calm(inner, k)
		}
		return out
	case []any:
		return calmList(x, key)
	}
	if p, ok := volatile[key]; ok && v != nil && !slices.Contains([]string{"", "0", "None"}, fmt.Sprint(v)) {
		return p
	}
	if s, ok := v.(string); ok {
		s = uuids.ReplaceAllString(stamps.ReplaceAllString(ports.ReplaceAllString(s, ":PORT/"), "TIME"), "UID")
		return numbered.ReplaceAllString(generated.ReplaceAllString(s, "${1}XXXXX"), "$1 (RV)")
	}
	return v
}

func calmList(x []any, key string) any {
	if key == "managedFields" {
		// Entries are in order of time, and time has the grain of a second.
		x = slices.SortedStableFunc(slices.Values(x), func(a, b any) int {
			return strings.Compare(fmt.Sprint(dig(a, "subresource"), dig(a, "manager")), fmt.Sprint(dig(b, "subresource"), dig(b, "manager")))
		})
	}
	if key == "clusterIPs" && len(x) > 0 && x[0] != "None" {
		return []any{"IP"}
	}
	out := make([]any, len(x))
	for i, inner := range x {
		s, isText := inner.(string)
		switch {
		case key == "cells" && isText && age.MatchString(s):
			out[i] = "AGE"
		case key == "cells" && isText && address.MatchString(s):
			out[i] = "IP"
		case key == "cells":
			out[i] = calm(inner, "")
		default:
			out[i] = calm(inner, key)
		}
	}
	return out
}

func differences(want, got any, at string, found *[]string) {
	w, wantMap := want.(map[string]any)
	g, gotMap := got.(map[string]any)
	if wantMap && gotMap {
		for k := range w {
			if _, ok := g[k]; !ok {
				*found = append(*found, fmt.Sprintf("%s.%s: missing, want %.160v", at, k, w[k]))
				continue
			}
			differences(w[k], g[k], at+"."+k, found)
		}
		for k := range g {
			if _, ok := w[k]; !ok {
				*found = append(*found, fmt.Sprintf("%s.%s: not wanted, got %.160v", at, k, g[k]))
			}
		}
		return
	}
	wl, wantList := want.([]any)
	gl, gotList := got.([]any)
	if wantList && gotList && len(wl) == len(gl) {
		for i := range wl {
			differences(wl[i], gl[i], fmt.Sprintf("%s[%d]", at, i), found)
		}
		return
	}
	if !reflect.DeepEqual(want, got) {
		*found = append(*found, fmt.Sprintf("%s: want %.200v, got %.200v", at, want, got))
	}
}
