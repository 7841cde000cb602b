package audit

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"

	"github.com/millrace/millrace/internal/server/auth"
)

const header = "apiVersion: audit.k8s.io/v1\nkind: Policy\n"

func policy(t testing.TB, text string) *Policy {
	t.Helper()
	p, err := ParsePolicy([]byte(header + text))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

var listPods = auth.Attributes{User: auth.User{Name: "alice", Groups: []string{"dev"}}, Verb: "list", IsResource: true, Version: "v1", Resource: "pods", Namespace: "default"}

func TestTheFirstRuleThatMatchesDecides(t *testing.T) {
	logs := listPods
	logs.Verb, logs.Subresource, logs.Name = "get", "log", "web"
	health := auth.Attributes{User: auth.User{Name: "alice"}, Verb: "get", Path: "/healthz/etcd"}
	for _, c := range []struct {
		rules string
		at    auth.Attributes
		want  string
	}{
		{"- {level: Request, verbs: [get]}\n- {level: Metadata}", listPods, "Metadata"},
		{"- {level: Request, verbs: [list]}\n- {level: Metadata}", listPods, "Request"},
		{"- {level: Request, users: [bob]}", listPods, ""},
		{"- {level: Request, userGroups: [dev]}", listPods, "Request"},
		{"- {level: Request, namespaces: [default]}", listPods, "Request"},
		{"- {level: Request, namespaces: ['']}", listPods, ""},
		{"- {level: Request, resources: [{group: '', resources: [pods]}]}", logs, ""},
		{"- {level: Request, resources: [{group: '', resources: [pods/log]}]}", logs, "Request"},
		{"- {level: Request, resources: [{group: '', resources: ['pods/*']}]}", logs, "Request"},
		{"- {level: Request, resources: [{group: '', resources: ['*/log'], resourceNames: [web]}]}", logs, "Request"},
		{"- {level: Request, resources: [{group: '', resources: ['*/log'], resourceNames: [db]}]}", logs, ""},
		{"- {level: Request, resources: [{group: apps}]}", logs, ""},
		{"- {level: Request, resources: [{group: '', resources: ['*']}]}", logs, "Request"},
		{"- {level: Request, nonResourceURLs: ['/healthz*']}", health, "Request"},
		{"- {level: Request, nonResourceURLs: ['/livez']}", health, ""},
		{"- {level: Request, nonResourceURLs: ['*']}", listPods, ""},
		{"- {level: Request, namespaces: [default]}", health, ""},
	} {
		got := ""
		if r := policy(t, "rules:\n"+c.rules).find(&c.at); r != nil {
			got = r.Level
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", c.rules, got, c.want)
		}
	}
}

func TestWrongPoliciesAreRefusedInWords(t *testing.T) {
	for text, want := range map[string]string{
		"":                             "0 rules",
		"rules: [{level: All}]":        "supported values",
		"rules: [{level: None, x: 1}]": "unknown field",
		"rules: [{level: None, omitStages: [End]}]":                                         "allowed stages are",
		"rules: [{level: None, nonResourceURLs: [healthz]}]":                                "begin with a '/'",
		"rules: [{level: None, nonResourceURLs: ['/a*b']}]":                                 "final character",
		"rules: [{level: None, nonResourceURLs: ['/a'], namespaces: [b]}]":                  "cannot apply to both",
		"rules: [{level: None, resources: [{group: '', resourceNames: [a]}]}]":              "at least one resource",
		"rules: [{level: None, resources: [{group: 'apps/v1', resources: [deployments]}]}]": "not the name of a group",
	} {
		if _, err := ParsePolicy([]byte(header + text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// strictly decodes an event as Kubernetes does.
func strictly(t testing.TB, line []byte) *auditv1.Event {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(line))
	d.DisallowUnknownFields()
	e := &auditv1.Event{}
	if err := d.Decode(e); err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	return e
}

func request(uri string) *http.Request {
	r := httptest.NewRequest(http.MethodGet, uri, nil)
	r.Header.Set("User-Agent", `kubectl/"v1" <x>`)
	r.Header.Set("X-Forwarded-For", "10.0.0.1, 10.0.0.2")
	r.RemoteAddr = "127.0.0.1:1234"
	return r
}

func TestEventsAreThoseOfKubernetes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.log")
	l, err := Open(Options{Policy: policy(t, "omitManagedFields: true\nrules: [{level: RequestResponse}]"), File: FileOptions{Path: path}})
	if err != nil {
		t.Fatal(err)
	}
	at := listPods
	at.Verb, at.User.Extra = "create", map[string][]string{"scopes": {"a", "b"}}
	rec, err := l.Begin(request("/api/v1/namespaces/default/pods?dryRun=All"), newID(), at, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	rec.Object("web", "default", "uid-1", "7")
	rec.Request([]byte("{\n\"metadata\": {\"managedFields\": [1], \"name\": \"web\"}}"))
	rec.Impersonate(auth.User{Name: "bob"}, "impersonate:user-info")
	rec.Annotate("b", "2")
	rec.Annotate("a", "\"quoted\"\n")
	rec.Annotate("a", "later")
	rec.Complete(http.StatusForbidden, &metav1.Status{Status: "Failure", Reason: "Forbidden", Message: "no", Code: 403})
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	lines := readLines(t, path)
	if len(lines) != 2 {
		t.Fatalf("%d lines", len(lines))
	}
	first, e := strictly(t, lines[0]), strictly(t, lines[1])
	if first.Stage != "RequestReceived" || first.ResponseStatus != nil || e.Stage != "ResponseComplete" || e.AuditID != first.AuditID || e.AuditID == "" {
		t.Errorf("%+v\n%+v", first, e)
	}
	got := fmt.Sprint(e.Kind, e.APIVersion, e.Level, e.Verb, e.RequestURI, e.User.Username, e.User.Extra["scopes"], e.ImpersonatedUser.Username, e.SourceIPs, e.UserAgent,
		*e.ObjectRef, e.ResponseStatus.Code, e.ResponseStatus.Reason, string(e.RequestObject.Raw), e.Annotations)
	want := `Eventaudit.k8s.io/v1RequestResponsecreate/api/v1/namespaces/default/pods?dryRun=Allalice[a b]bob[10.0.0.1 10.0.0.2 127.0.0.1]kubectl/"v1" <x>` +
		`{pods default web uid-1  v1 7 }403Forbidden{"metadata":{"name":"web"}}map[a:"quoted"` + "\n b:2]"
	if strings.ReplaceAll(got, " ", "") != strings.ReplaceAll(want, " ", "") {
		t.Errorf("%s\nwant\n%s", got, want)
	}
}

func readLines(t testing.TB, path string) [][]byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return slices.Collect(bytes.Lines(bytes.TrimSuffix(b, []byte("\n"))))
}

func TestStagesThatAreOmittedAreNotWritten(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.log")
	l, err := Open(Options{Policy: policy(t, "omitStages: [RequestReceived]\nrules: [{level: Metadata, omitStages: [ResponseStarted]}]"), File: FileOptions{Path: path}})
	if err != nil {
		t.Fatal(err)
	}
	rec, err := l.Begin(request("/api/v1/pods?watch=1"), newID(), listPods, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	rec.Request(map[string]string{"not": "written"})
	rec.Started(200)
	rec.Complete(200, nil)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	lines := readLines(t, path)
	if len(lines) != 1 || bytes.Contains(lines[0], []byte("written")) || strictly(t, lines[0]).Stage != "ResponseComplete" {
		t.Errorf("%s", lines)
	}
}

func TestFilesRotateAndOldOnesGo(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.log")
	b, err := FileOptions{Path: path, MaxBackups: 2}.open(nil)
	if err != nil {
		t.Fatal(err)
	}
	f := b.sink.(*file)
	f.max = 100
	synctest.Test(t, func(t *testing.T) {
		for i := range 10 {
			if err := f.write(t.Context(), events{text: fmt.Appendf(nil, "%080d\n", i)}); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
		}
	})
	if err := f.close(); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(entries) != 3 {
		t.Fatalf("%v, %v", entries, err)
	}
	for i, want := range []string{"7", "8", "9"} {
		lines := readLines(t, filepath.Join(filepath.Dir(path), entries[i].Name()))
		if len(lines) != 1 || !bytes.HasSuffix(lines[0], []byte(want)) {
			t.Errorf("%s: %s", entries[i].Name(), lines)
		}
	}
}

// stuck is a sink that waits until it is let go.
type stuck struct {
	letGo chan struct{}
	got   int
}

func (s *stuck) write(_ context.Context, all events) error {
	<-s.letGo
	s.got += len(all.ends)
	return nil
}
func (s *stuck) close() error { return nil }

func TestASlowReceiverDelaysNobodyAndLossesAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &stuck{letGo: make(chan struct{})}
		b := &backend{name: "webhook", sink: s, batch: newBatch(BatchOptions{BufferSize: 100, MaxSize: 10, MaxWait: time.Second})}
		l := &Log{policy: policy(t, "rules: [{level: Metadata}]"), backends: []*backend{b}}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- l.Run(ctx) }()
		for range 500 {
			rec, err := l.Begin(request("/api/v1/pods"), newID(), listPods, time.Now())
			if err != nil {
				t.Fatal(err)
			}
			rec.Complete(200, nil)
		}
		close(s.letGo)
		synctest.Wait()
		cancel()
		<-ended
		if lost := b.failed.Load(); lost == 0 || int(lost)+s.got != 1000 {
			t.Errorf("%d were written, %d are counted as lost", s.got, lost)
		}
	})
}

func TestAWebhookGetsListsAndIsTriedAgain(t *testing.T) {
	var lists []auditv1.EventList
	calls := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		calls++
		if calls == 1 {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		b, _ := io.ReadAll(r.Body)
		var l auditv1.EventList
		if err := json.Unmarshal(b, &l); err != nil {
			t.Error(err)
		}
		lists = append(lists, l)
	}))
	defer server.Close()
	config := filepath.Join(t.TempDir(), "config")
	text := "apiVersion: v1\nkind: Config\nclusters: [{name: a, cluster: {server: '" + server.URL + "/audit'}}]\ncontexts: [{name: a, context: {cluster: a}}]\ncurrent-context: a\n"
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := Open(Options{Policy: policy(t, "rules: [{level: Metadata}]"), Webhook: WebhookOptions{ConfigFile: config, InitialBackoff: time.Millisecond}})
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		rec, err := l.Begin(request("/api/v1/pods"), newID(), listPods, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		rec.Complete(200, nil)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // Run writes what waits at its end
	if err := l.Run(ctx); err != context.Canceled {
		t.Error(err)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	events := 0
	for _, list := range lists {
		events += len(list.Items)
	}
	if events != 6 || l.backends[0].failed.Load() != 0 {
		t.Errorf("%d events in %d lists after %d calls", events, len(lists), calls)
	}
}

func FuzzPolicy(f *testing.F) {
	f.Add([]byte(header + "rules: [{level: Metadata, resources: [{group: '', resources: ['pods/*']}]}]"))
	f.Fuzz(func(_ *testing.T, b []byte) {
		if p, err := ParsePolicy(b); err == nil {
			p.find(&listPods)
		}
	})
}

func TestTimesAreWrittenAsTheLibraryWritesThem(t *testing.T) {
	const layout = "2006-01-02T15:04:05.000000Z07:00"
	for _, at := range []time.Time{
		{}, time.Unix(0, 0), time.Unix(1767225599, 999_999_999), time.Unix(951782400, 1000), time.Now(), time.Now().In(time.FixedZone("east", 7*3600)),
	} {
		if got, want := string(appendTime(nil, at)), at.UTC().Format(layout); got != want {
			t.Errorf("%v is written as %s, want %s", at, got, want)
		}
	}
}

func TestIDsAreRandomUUIDs(t *testing.T) {
	seen, version4 := map[string]bool{}, regexp.MustCompile("^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$")
	for range 1000 {
		id := newID()
		if !version4.MatchString(id) || seen[id] {
			t.Fatal(id)
		}
		seen[id] = true
	}
}

func TestUsersAreEncodedAsTheyAre(t *testing.T) {
	var known users
	shared := map[string][]string{"b": {"2"}, "a": {"1", "3"}}
	for range 2 {
		for _, u := range []auth.User{
			{Name: "alice"}, {Name: "alice", Extra: shared}, {Name: "bob", Extra: shared}, {Name: "bob", UID: "7", Extra: shared},
			{Name: "bob", UID: "7", Groups: []string{"g"}, Extra: shared}, {Name: "bob", UID: "7", Groups: []string{"h"}, Extra: shared},
			{Name: "bob", UID: "7", Groups: []string{"h"}, Extra: map[string][]string{"b": {"2"}}},
		} {
			if got, want := string(known.append(nil, &u)), string(user(nil, &u)); got != want {
				t.Errorf("%+v became %s, want %s", u, got, want)
			}
		}
	}
}

func BenchmarkMetadataToAFile(b *testing.B) {
	for _, mode := range []string{Blocking, Batch} {
		b.Run(mode, func(b *testing.B) {
			l, err := Open(Options{Policy: policy(b, "rules: [{level: Metadata}]"), File: FileOptions{Path: filepath.Join(b.TempDir(), "audit.log"), Mode: mode}})
			if err != nil {
				b.Fatal(err)
			}
			ctx, cancel := context.WithCancel(context.Background())
			done := make(chan struct{})
			go func() {
				defer close(done)
				_ = l.Run(ctx)
			}()
			r, get := request("/api/v1/namespaces/default/pods/web"), listPods
			get.Verb, get.Name = "get", "web"
			b.ReportAllocs()
			for b.Loop() {
				rec, err := l.Begin(r, newID(), get, time.Now())
				if err != nil {
					b.Fatal(err)
				}
				rec.Annotate("authorization.k8s.io/decision", "allow")
				rec.Annotate("authorization.k8s.io/reason", `RBAC: allowed by ClusterRoleBinding "bench" of ClusterRole "bench" to User "quiet"`)
				rec.Complete(200, nil)
			}
			cancel()
			<-done
			if err := l.Close(); err != nil {
				b.Fatal(err)
			}
		})
	}
}
