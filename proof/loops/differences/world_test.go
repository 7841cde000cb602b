package differences_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/millracetest"
)

// hollowNodes is how many nodes run the pods of scenarios that make no nodes.
const hollowNodes = 6

// world is a cluster in which scenarios are played.
type world struct {
	testing.TB
	client *http.Client
	base   string
	// patience is how long a new namespace may take to be furnished.
	patience time.Duration

	mu      sync.Mutex // guards what follows
	traces  map[string]*trace
	refused map[string]bool // what loops must not do, and have tried
}

// trace is what was written in the namespace of a scenario.
type trace struct {
	last   time.Time
	kinds  map[string]bool
	writes map[string]bool
}

// auditPolicy has reads too, as loops may do them in vain.
const auditPolicy = `{"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": ["RequestReceived"], "rules": [
	{"level": "None", "verbs": ["watch"]}, {"level": "None", "resources": [{"group": "coordination.k8s.io", "resources": ["leases"]}]}, {"level": "Metadata"}]}`

func newWorld(t testing.TB, o millrace.Options) (*world, *millrace.Cluster) {
	w := &world{TB: t, patience: time.Minute, traces: map[string]*trace{}, refused: map[string]bool{}}
	o.Audit.Events, o.Audit.PolicyFile = w.audited, filepath.Join(t.TempDir(), "policy.json")
	if err := os.WriteFile(o.Audit.PolicyFile, []byte(auditPolicy), 0o600); err != nil {
		t.Fatal(err)
	}
	o.Logger = slog.New(slog.DiscardHandler)
	cluster := millracetest.Start(t, o)
	config := cluster.Config()
	through, err := rest.TransportFor(config)
	if err != nil {
		t.Fatal(err)
	}
	w.client, w.base = &http.Client{Transport: through}, config.Host
	return w, cluster
}

// ours is a world with our loops and our scheduler. It must be called in a bubble.
func ours(t testing.TB, nodes int) *world {
	w, _ := newWorld(t, millrace.Options{Listen: "none", Nodes: nodes})
	t.Cleanup(w.nothingRefused)
	return w
}

// nothingRefused reports what loops have tried and must not do: their roles are Kubernetes', and a loop that needs more
// works in no cluster but ours.
func (w *world) nothingRefused() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, what := range keys(w.refused) {
		w.Errorf("refused: %s", what)
	}
}

// theirs is a world with the loops and the scheduler of Kubernetes, which are programs in a directory.
func theirs(t testing.TB, programs string, nodes int) *world {
	keys := t.TempDir()
	w, cluster := newWorld(t, millrace.Options{Keys: keys, Controllers: []string{}, ControllersElsewhere: true, NoScheduler: true, Nodes: nodes})
	for name, flags := range map[string][]string{
		"kube-controller-manager": {
			"--use-service-account-credentials", "--controllers=*", "--root-ca-file=" + keys + "/ca.crt",
			"--service-account-private-key-file=" + keys + "/sa.key", "--cluster-signing-cert-file=" + keys + "/ca.crt", "--cluster-signing-key-file=" + keys + "/ca.key",
			"--horizontal-pod-autoscaler-sync-period=2s",
		},
		"kube-scheduler": nil,
	} {
		text, err := millrace.UserKubeconfig(keys, cluster.URL(), "system:"+name, nil, time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(keys, name)
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		log, err := os.Create(filepath.Join(t.ArtifactDir(), fmt.Sprintf("%s-%d.log", name, nodes)))
		if err != nil {
			t.Fatal(err)
		}
		c := exec.Command(filepath.Join(programs, name), append(flags, "--kubeconfig="+path, "--leader-elect=false", "--secure-port=0",
			"--kube-api-qps=1000", "--kube-api-burst=2000", "-v=1")...)
		c.Stdout, c.Stderr = log, log
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = c.Process.Kill()
			_ = c.Wait() // it was killed
			_ = log.Close()
		})
	}
	return w
}

// audited takes note of a request that was to change something, and of one that was refused.
func (w *world) audited(event []byte) {
	var e struct {
		Verb string `json:"verb"`
		User struct {
			Username string `json:"username"`
		} `json:"user"`
		As struct {
			Username string `json:"username"`
		} `json:"impersonatedUser"`
		Object *struct {
			Resource, Namespace, Name, Subresource string
		} `json:"objectRef"`
		Status struct {
			Code    int    `json:"code"`
			Message string `json:"message"`
		} `json:"responseStatus"`
	}
	if json.Unmarshal(event, &e) != nil || e.Object == nil {
		return
	}
	ns := e.Object.Namespace
	if ns == "" {
		ns, _, _ = strings.Cut(e.Object.Name, "-")
	}
	user := cmp.Or(e.As.Username, e.User.Username)
	w.mu.Lock()
	defer w.mu.Unlock()
	kubelet := strings.HasPrefix(user, "system:node:") // it may not read a pod that is gone, and has no role
	if e.Status.Code == http.StatusForbidden && strings.Contains(e.Status.Message, " cannot "+e.Verb+" resource ") && !kubelet {
		w.refused[user+": "+e.Verb+" "+e.Object.Resource+"/"+e.Object.Subresource] = true
	}
	of := w.traces[ns]
	if of == nil || e.Verb == "get" || e.Verb == "list" {
		return
	}
	of.kinds[e.Object.Resource] = true
	if e.Status.Code >= 300 || e.Object.Resource == "events" {
		return
	}
	of.last = time.Now()
	name, ours := strings.CutPrefix(user, "system:serviceaccount:kube-system:")
	if !ours {
		name, ours = strings.CutPrefix(user, "system:kube-")
	}
	if ours {
		what := e.Object.Resource
		if e.Object.Subresource != "" {
			what += "/" + e.Object.Subresource
		}
		of.writes[name+" "+e.Verb+" "+what] = true
	}
}

// begin makes the namespace of a scenario.
func (w *world) begin(ns string) {
	w.mu.Lock()
	w.traces[ns] = &trace{last: time.Now(), kinds: map[string]bool{"serviceaccounts": true}, writes: map[string]bool{}}
	w.mu.Unlock()
	w.send(http.MethodPost, "/api/v1/namespaces", "application/json", []byte(`{"metadata":{"name":"`+ns+`"}}`))
	for began := time.Now(); ; time.Sleep(50 * time.Millisecond) {
		if code, _ := w.send(http.MethodGet, "/api/v1/namespaces/"+ns+"/serviceaccounts/default", "", nil); code == http.StatusOK {
			return
		}
		if time.Since(began) > w.patience {
			w.Errorf("namespace %s gets no service account", ns)
			return
		}
	}
}

// seen returns what was written so far, and when last.
func (w *world) seen(ns string) (last time.Time, kinds, writes []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	of := w.traces[ns]
	return of.last, keys(of.kinds), keys(of.writes)
}

// send sends a request, and returns the code and the body of the answer.
func (w *world) send(method, path, contentType string, body []byte) (int, []byte) {
	r, err := http.NewRequestWithContext(w.Context(), method, w.base+path, bytes.NewReader(body))
	if err != nil {
		w.Error(err)
		return 0, nil
	}
	if contentType == "" {
		contentType = "application/json"
	}
	r.Header.Set("Content-Type", contentType)
	r.Header.Set("User-Agent", "user")
	answer, err := w.client.Do(r)
	if err != nil {
		w.Error(err)
		return 0, nil
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		w.Error(err)
	}
	return answer.StatusCode, text
}

// list returns the objects of a resource: those of a namespace, or of a cluster.
func (w *world) list(resource, ns string) []node {
	at := places[resource]
	path := at.prefix
	if !at.cluster {
		path += "/namespaces/" + ns
	}
	code, text := w.send(http.MethodGet, path+"/"+resource, "", nil)
	var list struct{ Items []node }
	if err := json.Unmarshal(text, &list); code != http.StatusOK || err != nil {
		w.Errorf("list %s of %s: %d %.300s", resource, ns, code, text)
	}
	return list.Items
}

const (
	// longest is how long is waited for quiet, or for what a step awaits: two minutes of a CronJob's at the most.
	longest = 150 * time.Second
	// longestAgreement is how long, in virtual time, our state may take to be what was recorded.
	longestAgreement = 45 * time.Second
)

// play plays a scenario, and returns its states. With expectations it waits until they are fulfilled.
func (w *world) play(s *scenario, ns string, want []state) (out []state) {
	w.begin(ns)
	look := newLook(w, s, ns)
	for i, one := range s.steps {
		began := time.Now()
		answers := w.perform(look, one.requests)
		var now, best state
		for {
			w.awaitQuiet(ns, began, max(one.settle, s.quiet()), s.quiet())
			now = look.take(answers)
			over := time.Since(began)
			awaited := one.until == "" || now.matches(regexp.MustCompile(one.until))
			if i < len(want) && awaited && (best == nil || len(differences(s.name, want[i], now)) < len(differences(s.name, want[i], best))) {
				best = now // the one that is told if none fulfills the expectation
			}
			switch {
			case !awaited && over < longest:
			case best != nil && over < max(one.settle, s.quiet())+longestAgreement && len(differences(s.name, want[i], best)) > 0:
			case best != nil:
				out = append(out, best)
			default:
				out = append(out, now)
			}
			if len(out) > i {
				break
			}
			time.Sleep(500 * time.Millisecond)
		}
	}
	w.end(s, ns)
	return out
}

// perform sends requests, and returns a summary of the answers.
func (w *world) perform(look *look, requests []request) state {
	answers := state{}
	for i, r := range requests {
		path, body, err := r.wire(look)
		if err != nil {
			answers[fmt.Sprint("answer ", i)] = "not sent: " + err.Error()
			continue
		}
		code, text := w.send(r.method, path, r.contentType, body)
		answer := fmt.Sprint(code)
		if code >= 300 {
			var status struct{ Reason, Message string }
			_ = json.Unmarshal(text, &status) // then it has no reason
			answer += " " + status.Reason + " " + look.text(status.Message)
		}
		answers[fmt.Sprint("answer ", i)] = answer
	}
	return answers
}

// awaitQuiet waits until nothing was written for a while, since a step began too.
func (w *world) awaitQuiet(ns string, began time.Time, settle, quiet time.Duration) {
	for {
		last, _, _ := w.seen(ns)
		if time.Since(began) >= settle && time.Since(last) >= quiet || time.Since(began) > settle+longest {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// blink is for how long a cluster must have no nodes until Kubernetes, which looks every five seconds, sees that.
// Otherwise nodes that it is about to give up come before those of the next scenario, although they are gone, and it
// gives up one in ten seconds.
const blink = 6 * time.Second

func readyNode(o node) bool {
	ready, _ := dig(node{"conditions": conditions(dig(o, "status", "conditions"))}, "conditions", "Ready", "status").(string)
	return ready == "True"
}

// end removes what a scenario leaves. In a cluster without kubelets it does their part too.
func (w *world) end(s *scenario, ns string) {
	w.send(http.MethodDelete, "/api/v1/namespaces/"+ns, "", nil)
	lost := false
	for resource, at := range places {
		if !at.cluster || resource == "namespaces" {
			continue
		}
		for _, o := range w.list(resource, "") {
			if name := nameOf(o); strings.HasPrefix(name, ns+"-") {
				lost = lost || resource == "nodes" && !readyNode(o)
				w.send(http.MethodDelete, at.prefix+"/"+resource+"/"+name, "", nil)
			}
		}
	}
	if lost {
		time.Sleep(blink)
	}
	for began := time.Now(); s.alone && time.Since(began) < longest; time.Sleep(100 * time.Millisecond) {
		left := w.list("pods", ns)
		if len(left) == 0 {
			return
		}
		for _, o := range left {
			path := "/api/v1/namespaces/" + ns + "/pods/" + nameOf(o)
			w.send(http.MethodPatch, path, "application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`))
			w.send(http.MethodDelete, path, "", []byte(`{"gracePeriodSeconds":0}`))
		}
	}
}
