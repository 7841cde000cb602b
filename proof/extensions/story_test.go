package extensions_test

import (
	"bytes"
	"crypto/tls"
	"encoding/json"
	"encoding/pem"
	"flag"
	"fmt"
	"io"
	"log"
	gomaps "maps"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/millracetest"
)

var (
	peer   = flag.String("peer", "", "URL of a kube-apiserver whose answers are recorded")
	bearer = flag.String("bearer", "", "token of its administrator")
)

const recorded = "testdata/answers.json"

// step is a request. Body and path may contain {HOOK}, the base of the webhook's URL, and {CA}, its certificate.
type step struct {
	Method, Path, Body string
	// Settles means that the peer needs some time until the change takes effect.
	Settles bool
}

// outcome is the result of a step: the answer, and the requests that webhooks received.
type outcome struct {
	Code     int      `json:"code"`
	Answer   any      `json:"answer,omitempty"`
	Warnings []string `json:"warnings,omitempty"`
	Asked    []string `json:"asked,omitempty"`
}

// api is the server to which steps are sent.
type api struct {
	testing.TB
	client *http.Client
	base   string
	token  string
	hook   *hook
}

// settle is how long the server needs until it follows a change: ours no time, the peer some for webhooks, and more for
// policies, which it reads once a second.
func (a *api) settle(path string) time.Duration {
	switch {
	case *peer == "":
		return 0
	case strings.Contains(path, "policies") || strings.Contains(path, "policybindings"):
		return 1500 * time.Millisecond
	}
	return 300 * time.Millisecond
}

func (a *api) do(s step) outcome {
	a.Helper()
	a.hook.reset()
	text := strings.NewReplacer("{HOOK}", a.hook.URL, "{CA}", a.hook.ca).Replace(s.Body)
	request, err := http.NewRequestWithContext(a.Context(), s.Method, a.base+s.Path, strings.NewReader(text))
	if err != nil {
		a.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	switch s.Method {
	case http.MethodPatch:
		request.Header.Set("Content-Type", "application/merge-patch+json")
	case "APPLY":
		request.Method = http.MethodPatch
		request.Header.Set("Content-Type", "application/apply-patch+yaml")
	}
	if a.token != "" {
		request.Header.Set("Authorization", "Bearer "+a.token)
	}
	response, err := a.client.Do(request)
	if err != nil {
		a.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		a.Fatal(err)
	}
	if s.Settles && response.StatusCode < 300 {
		time.Sleep(a.settle(s.Path))
	}
	o := outcome{Code: response.StatusCode, Warnings: response.Header["Warning"], Asked: a.hook.asked()}
	var tree any
	if json.Unmarshal(body, &tree) != nil {
		tree = string(body)
	}
	o.Answer = a.normal(tree)
	return o
}

// volatile are fields that differ between runs, or that other tests check.
var volatile = []string{"uid", "resourceVersion", "creationTimestamp", "managedFields", "generation", "selfLink", "time", "deletionTimestamp"}

var (
	uuids    = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)
	suffixes = regexp.MustCompile(`(gen-)[a-z0-9]{5}`)
	times    = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ`)
	ports    = regexp.MustCompile(`127\.0\.0\.1:\d+`)
)

func (a *api) normal(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for _, name := range volatile {
			delete(v, name)
		}
		for k, inner := range v {
			if v[k] = a.normal(inner); v[k] == nil {
				delete(v, k)
			}
		}
	case []any:
		for i := range v {
			v[i] = a.normal(v[i])
		}
	case string:
		v = times.ReplaceAllString(strings.ReplaceAll(v, a.hook.ca, "CA"), "TIME")
		return suffixes.ReplaceAllString(ports.ReplaceAllString(uuids.ReplaceAllString(v, "UUID"), "HOST"), "${1}XXXXX")
	}
	return v
}

// hook is a webhook. The last part of the URL's path selects its behaviour.
type hook struct {
	*httptest.Server
	pem []byte // the certificate
	ca  string // the same, as JSON has it
	of  *api

	mu   sync.Mutex
	seen []string
}

func newHook(t testing.TB) *hook {
	h := &hook{}
	h.Server = httptest.NewUnstartedServer(h)
	h.Config.ErrorLog = log.New(io.Discard, "", 0)
	h.StartTLS()
	t.Cleanup(h.Close)
	h.pem = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: h.Certificate().Raw})
	h.ca = encoded(h.pem)
	return h
}

func encoded(b []byte) string {
	text, _ := json.Marshal(b)
	return strings.Trim(string(text), `"`)
}

func (h *hook) reset() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.seen = nil
}

func (h *hook) asked() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	slices.Sort(h.seen)
	return h.seen
}

func (h *hook) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	var review struct {
		APIVersion string         `json:"apiVersion"`
		Kind       string         `json:"kind"`
		Request    map[string]any `json:"request"`
	}
	if r.Method != http.MethodPost {
		return // it follows a redirect
	}
	if err := json.Unmarshal(body, &review); err != nil {
		h.of.Errorf("a webhook got %s: %v", body, err)
		return
	}
	uid, _ := review.Request["uid"].(string)
	if user, ok := review.Request["userInfo"].(map[string]any); ok {
		delete(review.Request, "userInfo")
		review.Request["by"] = user["username"] != ""
	}
	shown, _ := json.Marshal(h.of.normal(review.Request))
	h.mu.Lock()
	h.seen = append(h.seen, r.URL.Path+" "+string(shown))
	h.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	answer := func(fields string) {
		fmt.Fprintf(w, `{"apiVersion":%q,"kind":"AdmissionReview","response":{"uid":%q,%s}}`, review.APIVersion, uid, fields)
	}
	patch := func(text string) {
		answer(`"allowed":true,"patchType":"JSONPatch","patch":"` + encoded([]byte(text)) + `"`)
	}
	switch how := r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]; how {
	case "allow":
		answer(`"allowed":true,"warnings":["mind this"]`)
	case "deny":
		answer(`"allowed":false,"status":{"code":403,"message":"not here","reason":"Forbidden"}`)
	case "wordless":
		answer(`"allowed":false`)
	case "teapot":
		answer(`"allowed":false,"status":{"code":418,"reason":"Teapot","details":{"causes":[{"message":"short"}]}}`)
	case "label":
		patch(`[{"op":"add","path":"/metadata/labels","value":{"patched":"yes"}}]`)
	case "badpath":
		patch(`[{"op":"remove","path":"/none/at/all"}]`)
	case "badtype":
		patch(`[{"op":"add","path":"/data","value":7}]`)
	case "invalid":
		patch(`[{"op":"add","path":"/metadata/labels","value":{"not valid!":"yes"}}]`)
	case "rename":
		patch(`[{"op":"replace","path":"/metadata/name","value":"renamed"}]`)
	case "five":
		patch(`[{"op":"replace","path":"/spec/replicas","value":5}]`)
	case "annotate":
		patch(`[{"op":"add","path":"/metadata/annotations","value":{"patched":"too"}}]`)
	case "warns":
		answer(`"allowed":true,"warnings":["one","two \"quoted\"","` + strings.Repeat("long ", 100) + `"]`)
	case "notes":
		answer(`"allowed":true,"auditAnnotations":{"key":"value","no key!":"value"}`)
	case "code200":
		answer(`"allowed":false,"status":{"code":200,"status":"Success","message":"no"}`)
	case "patches":
		answer(`"allowed":false,"patchType":"JSONPatch","patch":"W10="`)
	case "otherversion":
		fmt.Fprintf(w, `{"apiVersion":"admission.k8s.io/v1beta1","kind":"AdmissionReview","response":{"uid":%q,"allowed":true}}`, uid)
	case "redirect":
		http.Redirect(w, r, "/allow", http.StatusFound)
	case "huge":
		answer(`"allowed":true,"warnings":["` + strings.Repeat("x", 4<<20) + `"]`)
	case "slow":
		select {
		case <-r.Context().Done():
		case <-time.After(5 * time.Second):
		}
	case "closes":
		panic(http.ErrAbortHandler)
	case "nonsense":
		io.WriteString(w, "nonsense")
	case "empty":
		fmt.Fprintf(w, `{"apiVersion":%q,"kind":"AdmissionReview"}`, review.APIVersion)
	case "wronguid":
		fmt.Fprintf(w, `{"apiVersion":%q,"kind":"AdmissionReview","response":{"uid":"other","allowed":true}}`, review.APIVersion)
	case "nokind":
		fmt.Fprintf(w, `{"response":{"uid":%q,"allowed":true}}`, uid)
	case "nopatchtype":
		answer(`"allowed":true,"patch":"W10="`)
	case "error":
		http.Error(w, "it is broken", http.StatusInternalServerError)
	default:
		if text, ok := patches[strings.TrimPrefix(how, "patch-")]; ok {
			patch(text)
			return
		}
		http.NotFound(w, r)
	}
}

// patches are those of a mutating webhook, by what it does with a config map.
var patches = map[string]string{
	"merges": `{"data":{"a":"b"}}`, "copies": `[{"op":"copy","from":"/data/k","path":"/data/l"}]`, "moves": `[{"op":"move","from":"/data/k","path":"/data/l"}]`,
	"tests": `[{"op":"test","path":"/data/k","value":"v"},{"op":"add","path":"/data/l","value":"x"}]`, "testsnot": `[{"op":"test","path":"/data/k","value":"other"}]`,
	"replacesall": `[{"op":"replace","path":"","value":{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c","namespace":"default"}}}]`,
	"addslist":    `[{"op":"add","path":"/metadata/finalizers","value":["example.com/a"]},{"op":"remove","path":"/metadata/finalizers/0"}]`, "noarray": `{"op":"add"}`,
	"unknownop": `[{"op":"invent","path":"/data"}]`, "kind": `[{"op":"replace","path":"/kind","value":"Secret"}]`, "namespace": `[{"op":"replace","path":"/metadata/namespace","value":"other"}]`,
	"uid": `[{"op":"add","path":"/metadata/uid","value":"x"}]`, "version": `[{"op":"add","path":"/metadata/resourceVersion","value":"7"}]`, "status": `[{"op":"add","path":"/status","value":{}}]`,
	"unknownfield": `[{"op":"add","path":"/unknown","value":{}}]`, "deepnull": `[{"op":"add","path":"/data/n","value":null}]`, "escaped": `[{"op":"add","path":"/metadata/annotations","value":{}},{"op":"add","path":"/metadata/annotations/a~1b","value":"c"}]`,
}

// targetAPI returns the server to test, or to record.
func targetAPI(t testing.TB) *api {
	a := &api{TB: t, hook: newHook(t)}
	a.hook.of = a
	if *peer != "" {
		a.client = &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
		a.base, a.token = *peer, *bearer
		return a
	}
	cluster := millracetest.Start(t, millrace.Options{Controllers: []string{}, NoScheduler: true})
	config := cluster.Config()
	through, err := rest.TransportFor(config)
	if err != nil {
		t.Fatal(err)
	}
	a.client, a.base = &http.Client{Transport: through}, config.Host
	return a
}

// deletedInTwoSteps is about a pod that goes at once (DELETE with a grace period of 0, or before it has a node).
// kube-apiserver marks it in one write and deletes it in another, and asks about each: first with the pod as it is,
// then with the one that it has marked. If the second is refused, the client gets an error, and the pod stays marked
// with a grace period of 0. Here there is one write and one question, and what is refused changes nothing.
const deletedInTwoSteps = "Kubernetes asks twice about one deletion, and shows what it has already marked; here it is one write, and one question"

// knownDifferences are stories with deliberate differences, or that cannot be completed.
var knownDifferences = map[string]string{
	"parameters by name":                            "Kubernetes looks for a parameter some time after its policy; here none is missed",
	"parameters by name, in the object's namespace": "Kubernetes looks for a parameter some time after its policy; here none is missed",
	"parameters by selector":                        "Kubernetes looks for a parameter some time after its policy; here none is missed",
	"pods and what is beside them, mutating":        deletedInTwoSteps,
	"pods and what is beside them, validating":      deletedInTwoSteps,
	"two policies":                                  "of two refusals Kubernetes tells either",
	"variables without a name":                      "both say what is missing; what follows from it is said in other words",
	"a patch that kind":                             "both are errors; this one says what is wrong",
	"a patch that version":                          "a mistake of the webhook is a 400, as it is for callers",
	"a policy that mutates: both kinds":             "the same two errors, in another order",
	"a webhook that huge, mutating":                 "an answer may have 3 MiB",
	"a webhook that huge, validating":               "an answer may have 3 MiB",
	"a webhook that may fail and huge, mutating":    "an answer may have 3 MiB",
	"a webhook that may fail and huge, validating":  "an answer may have 3 MiB",
	"a webhook that redirect, mutating":             "redirects are not followed; both are errors",
	"a webhook that redirect, validating":           "redirects are not followed; both are errors",
}

func TestAnswersAreThoseOfKubernetes(t *testing.T) {
	all := stories()
	if twice := repeated(all); len(twice) > 0 {
		t.Fatalf("answers are recorded by the names of stories, and several have the names %q", twice)
	}
	a := targetAPI(t)
	var want map[string][]outcome
	if text, err := os.ReadFile(recorded); err == nil {
		if err := json.Unmarshal(text, &want); err != nil {
			t.Fatal(err)
		}
	}
	got := map[string][]outcome{}
	for _, s := range all {
		for _, one := range s.steps {
			got[s.name] = append(got[s.name], a.do(one))
		}
		for _, one := range s.after {
			a.do(one)
		}
	}
	if *peer != "" {
		if err := os.WriteFile(recorded, lines(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	for _, s := range all {
		if knownDifferences[s.name] != "" {
			continue
		}
		for i, one := range s.steps {
			if i >= len(want[s.name]) {
				t.Errorf("%s: step %d was not recorded", s.name, i)
				continue
			}
			if w, g := text(want[s.name][i]), text(got[s.name][i]); w != g {
				t.Errorf("%s: %s %s\n got %s\nwant %s", s.name, one.Method, one.Path, g, w)
			}
		}
	}
}

// repeated returns the names that several stories have.
func repeated(all []story) (twice []string) {
	seen := map[string]int{}
	for _, s := range all {
		if seen[s.name]++; seen[s.name] == 2 {
			twice = append(twice, s.name)
		}
	}
	return twice
}

// lines is outcomes as JSON, each on a line.
func lines(all map[string][]outcome) []byte {
	var b bytes.Buffer
	between := "{\n"
	for _, name := range slices.Sorted(gomaps.Keys(all)) {
		fmt.Fprintf(&b, "%s%s: [\n", between, quoted(name))
		for i, o := range all[name] {
			if i > 0 {
				b.WriteString(",\n")
			}
			b.WriteString(" " + strings.TrimSuffix(text(o), "\n"))
		}
		b.WriteString("]")
		between = ",\n"
	}
	b.WriteString("\n}\n")
	return b.Bytes()
}

func quoted(v any) string {
	b, _ := json.Marshal(v) // a string can always be encoded
	return string(b)
}

func text(o outcome) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(o) // this value can always be encoded
	return b.String()
}
