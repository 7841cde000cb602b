package differences_test

import (
	"bytes"
	"crypto/tls"
	"encoding/json"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/millracetest"
)

// step is a request. {RV} in its body is the resource version of its object, as the server told it last.
type step struct {
	Method string `json:"method"`
	Path   string `json:"path"`
	// Type is the content type, Accept what is accepted; both are JSON if nothing is said.
	Type   string          `json:"type,omitempty"`
	Accept string          `json:"accept,omitempty"`
	Body   json.RawMessage `json:"body,omitempty"`
	// Until repeats a read until the answer matches this expression. If it is a definition, its versions are served
	// then.
	Until string `json:"until,omitempty"`
}

// outcome is what came of a step.
type outcome struct {
	Code     int      `json:"code"`
	Answer   any      `json:"answer,omitempty"`
	Warnings []string `json:"warnings,omitempty"`
	// Kept says that the resource version is as it was before.
	Kept bool `json:"kept,omitempty"`
}

// patience is how long is waited for what a server does by itself.
const patience = 30 * time.Second

// isEstablished matches the answer about a definition as soon as it is known whether it is.
const isEstablished = `"reason":"(InitialNamesAccepted|NotAccepted)"`

// server is one to which steps are sent, one after the other.
type server struct {
	testing.TB
	client      *http.Client
	base, token string
	// settle is how long the server takes until a change of a definition takes effect, once it says so.
	settle time.Duration
	// hook is the webhook that requests mean by {HOOK} and {CA}.
	hook *converter
	// seen are the resource versions of objects, by the end of their paths.
	seen map[string]string
}

// ours starts a server of this repository.
func ours(t testing.TB) *server {
	t.Helper()
	cluster := millracetest.Start(t, millrace.Options{Controllers: []string{}, NoScheduler: true})
	config := cluster.Config()
	through, err := rest.TransportFor(config)
	if err != nil {
		t.Fatal(err)
	}
	return &server{TB: t, client: &http.Client{Transport: through}, base: config.Host, hook: startConverter(t), seen: map[string]string{}}
}

// theirs is a kube-apiserver that runs already.
func theirs(t testing.TB, base, token string) *server {
	through := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	t.Cleanup(through.CloseIdleConnections)
	return &server{TB: t, client: &http.Client{Transport: through}, base: base, token: token, settle: 300 * time.Millisecond, hook: startConverter(t), seen: map[string]string{}}
}

func (s *server) do(one step) outcome {
	s.Helper()
	object := objectAt(one.Path)
	body := strings.NewReplacer("{RV}", s.seen[object], "{HOOK}", s.hook.URL, "{CA}", s.hook.authority).Replace(string(one.Body))
	code, header, answer := s.send(one, body)
	for code == http.StatusTooManyRequests { // the peer is exchanging the storage of a definition
		code, header, answer = s.send(one, body)
	}
	for began := time.Now(); !regexp.MustCompile(one.Until).Match(answer) && time.Since(began) < patience; {
		time.Sleep(10 * time.Millisecond)
		code, header, answer = s.send(one, body)
	}
	if one.Until != "" {
		if !regexp.MustCompile(one.Until).Match(answer) {
			s.Errorf("%s is never %s", one.Path, one.Until)
		}
		s.awaitServed(answer)
	}
	o := outcome{Code: code, Warnings: header["Warning"]}
	if json.Valid(answer) {
		o.Answer = decoded(answer)
	} else if len(answer) > 0 {
		o.Answer = string(answer)
	}
	if meta := metadataOf(o.Answer); meta != nil && code < 300 && one.Accept == "" {
		if one.Method == http.MethodPost {
			name, _ := meta["name"].(string)
			object += "/" + name
		}
		version, _ := meta["resourceVersion"].(string)
		o.Kept = version != "" && s.seen[object] == version && one.Method != http.MethodGet
		if version != "" {
			s.seen[object] = version
		}
	}
	o.Answer = normal(o.Answer)
	return o
}

func (s *server) send(one step, body string) (int, http.Header, []byte) {
	s.Helper()
	request, err := http.NewRequestWithContext(s.Context(), one.Method, s.base+one.Path, strings.NewReader(body))
	if err != nil {
		s.Fatal(err)
	}
	for name, value := range map[string]string{"Content-Type": one.Type, "Accept": one.Accept} {
		if value == "" {
			value = "application/json"
		}
		request.Header.Set(name, value)
	}
	request.Header.Set("User-Agent", "differences")
	if s.token != "" {
		request.Header.Set("Authorization", "Bearer "+s.token)
	}
	response, err := s.client.Do(request)
	if err != nil {
		return 0, nil, nil // a kube-apiserver that panics gives no answer
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		s.Fatal(err)
	}
	return response.StatusCode, response.Header, answer
}

// awaitServed waits until the versions of a definition are served, if it is established.
func (s *server) awaitServed(answer []byte) {
	s.Helper()
	time.Sleep(s.settle)
	var definition struct {
		Spec struct {
			Group    string
			Names    struct{ Plural string }
			Versions []struct {
				Name   string
				Served bool
			}
		}
		Status struct {
			Conditions []struct{ Type, Status string }
		}
	}
	if json.Unmarshal(answer, &definition) != nil || !slices.Contains(definition.Status.Conditions, struct{ Type, Status string }{"Established", "True"}) {
		return
	}
	for _, v := range definition.Spec.Versions {
		list := step{Method: http.MethodGet, Path: "/apis/" + definition.Spec.Group + "/" + v.Name + "/" + definition.Spec.Names.Plural}
		for began := time.Now(); v.Served && time.Since(began) < patience; time.Sleep(10 * time.Millisecond) {
			if code, _, _ := s.send(list, ""); code != http.StatusNotFound && code != http.StatusServiceUnavailable {
				break
			}
		}
	}
}

var objectPath = regexp.MustCompile(`^/apis/([^/]+)/[^/]+/([^?]*?)(?:/status|/scale)?(?:\?.*)?$`)

// objectAt is what is the same in all paths to an object.
func objectAt(path string) string {
	parts := objectPath.FindStringSubmatch(path)
	if parts == nil {
		return path
	}
	return parts[1] + "/" + parts[2]
}

func decoded(text []byte) any {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var tree any
	_ = d.Decode(&tree) // it was found valid
	return tree
}

func metadataOf(answer any) node {
	object, _ := answer.(node)
	meta, _ := object["metadata"].(node)
	return meta
}
