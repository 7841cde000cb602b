package clients_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	kubeproto "github.com/millrace/millrace/internal/protobuf"
	"github.com/millrace/millrace/internal/server/auth"
	"github.com/millrace/millrace/internal/server/watchcache"
)

// The fuzz targets call a server without a connection, so that every input of the fuzzer arrives. Run one with
//
//	go test ./proof/clients -run xxx -fuzz FuzzBodies
type target struct {
	house *house
	mu    sync.Mutex // one request at a time, so that a panic belongs to the input
}

func newTarget(f *testing.F) *target {
	t := &target{house: newHouse(f, watchcache.Options{}, nil, nil)}
	m := configMap("there", map[string]string{"l": "1"})
	must(t.house.client(f).Create(f.Context(), m, metav1.CreateOptions{}))(f)
	return t
}

// ask sends a request. The answer must be a success or an error of the client.
func (ta *target) ask(t *testing.T, method, path, query, body string, header ...string) {
	t.Helper()
	ta.mu.Lock()
	defer ta.mu.Unlock()
	r := &http.Request{Method: method, URL: &url.URL{Path: path, RawQuery: query}, Proto: "HTTP/2.0", ProtoMajor: 2, Header: http.Header{},
		Body: http.NoBody, RemoteAddr: "192.0.2.1:1"}
	if body != "" {
		r = httptest.NewRequest(method, "/", strings.NewReader(body))
		r.URL.Path, r.URL.RawQuery = path, query
	}
	for i := 0; i+1 < len(header); i += 2 {
		r.Header[header[i]] = []string{header[i+1]}
	}
	r = r.WithContext(auth.WithUser(t.Context(), auth.User{Name: "root", Groups: []string{auth.Masters}}))
	w := httptest.NewRecorder()
	ta.house.api.ServeHTTP(w, r)
	// The server waits for a future resource version, and then asks the client to retry.
	if w.Code >= 500 && w.Code != http.StatusGatewayTimeout {
		t.Errorf("%s %q ? %q %q: %d %.300s", method, path, query, body, w.Code, w.Body)
	}
}

func FuzzSelectors(f *testing.F) {
	x := newTarget(f)
	for _, s := range []string{"", "a", "!a", "a=b", "a==b", "a!=b", "a in (b,c)", "a notin ()", "a>1", "a<x", "((", "a in (", ",,", "=,=", "a\x00=b", "é=ü", "a in (b),!c,d!=e", `metadata.name=a\,b`, "metadata.namespace!=x"} {
		f.Add(s, s)
	}
	f.Fuzz(func(t *testing.T, labels, fields string) {
		q := url.Values{"labelSelector": {labels}, "fieldSelector": {fields}, "timeoutSeconds": {"1"}}
		x.ask(t, "GET", mapsPath, q.Encode(), "")
		x.ask(t, "GET", mapsPath, url.Values{"labelSelector": {labels}}.Encode(), "")
		x.ask(t, "GET", mapsPath, url.Values{"fieldSelector": {fields}}.Encode(), "")
	})
}

func FuzzContinueTokens(f *testing.F) {
	x := newTarget(f)
	for _, s := range []string{"", "x", "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6Miwic3RhcnQiOiJhXHUwMDAwIn0", "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6LTEsInN0YXJ0IjoiYSJ9",
		"eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6Miwic3RhcnQiOiIuLi8uLi9zIn0", "bnVsbA", "W10", "\xff\xfe", "e30"} {
		f.Add(s, "5", "")
	}
	f.Add("", "-1", "0")
	f.Add("", "99999999999999999999", "x")
	f.Add("", "9223372036854775807", "1")
	f.Fuzz(func(t *testing.T, token, limit, version string) {
		if len(version) > 3 {
			version = version[:3] // a future version would take three seconds
		}
		x.ask(t, "GET", mapsPath, url.Values{"continue": {token}, "limit": {limit}}.Encode(), "")
		x.ask(t, "GET", mapsPath, url.Values{"resourceVersion": {"0"}, "resourceVersionMatch": {version}, "limit": {limit}}.Encode(), "")
	})
}

func FuzzHeaders(f *testing.F) {
	x := newTarget(f)
	for _, s := range []string{"", "*/*", "application/json;as=Table;v=v1;g=meta.k8s.io", "application/json;q=x", ";;;", "a/b;c", "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
		"application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1", "application/yaml", "application/json;as=APIGroupDiscoveryList;v=v2;g=apidiscovery.k8s.io", "\x00", "gzip;q=0", "gzip, br"} {
		f.Add(s, s, s)
	}
	f.Fuzz(func(t *testing.T, accept, encoding, content string) {
		for _, path := range []string{mapsPath, mapsPath + "/there", "/apis", "/api/v1", "/version"} {
			x.ask(t, "GET", path, "", "", "Accept", accept, "Accept-Encoding", encoding)
		}
		x.ask(t, "POST", mapsPath, "dryRun=All", `{"metadata":{"name":"x"}}`, "Content-Type", content, "Accept", accept)
		x.ask(t, "PATCH", mapsPath+"/there", "dryRun=All", `{}`, "Content-Type", content, "User-Agent", encoding)
	})
}

func FuzzPatches(f *testing.F) {
	x := newTarget(f)
	for _, s := range []string{"", "{}", "[]", "null", "7", `"x"`, `[{"op":"add","path":"/data/x","value":"y"}]`, `[{"op":"copy","from":"","path":"/data"}]`, `[{"op":"move","from":"/metadata","path":"/metadata/labels"}]`,
		`[{"op":"replace","path":"/data/-","value":{}}]`, `[{"op":"test","path":"/metadata/ownerReferences/0"}]`, `{"metadata":{"$patch":"replace"}}`, `{"metadata":{"labels":{"$retainKeys":["a"]}}}`,
		`{"metadata":{"$setElementOrder/ownerReferences":[{"uid":"a"}],"ownerReferences":[{"uid":"a"}]}}`, `{"metadata":{"$deleteFromPrimitiveList/finalizers":["a"]}}`, `{"metadata":{"managedFields":[{}]}}`,
		"apiVersion: v1\nkind: ConfigMap\ndata: {a: b}", "a: &a [*a]", "apiVersion: v1\nkind: ConfigMap\nmetadata: {managedFields: [{}]}", `{"apiVersion":"v1","kind":"ConfigMap","data":{"k":null}}`, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"labels":{"a":{}}}}`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, kind := range []string{"application/json-patch+json", "application/merge-patch+json", "application/strategic-merge-patch+json", "application/apply-patch+yaml"} {
			for _, path := range []string{mapsPath + "/there", "/api/v1/namespaces/default/pods/none", "/apis/apps/v1/namespaces/default/deployments/new/scale"} {
				x.ask(t, "PATCH", path, "dryRun=All&fieldManager=m&force=true", text, "Content-Type", kind)
				x.ask(t, "PATCH", path, "dryRun=All&fieldManager=m", text, "Content-Type", kind)
			}
		}
	})
}

func FuzzBodies(f *testing.F) {
	x := newTarget(f)
	p := pod("p")
	proto, err := kubeproto.Marshal("v1", "Pod", p)
	if err != nil {
		f.Fatal(err)
	}
	for _, s := range []string{"", "{}", "[]", "null", "{", `{"metadata":{"name":"p"},"spec":{"containers":[{"name":"c","image":"i"}]}}`, `{"spec":{"containers":null,"volumes":[{}]}}`,
		`{"metadata":{"name":"x","creationTimestamp":"x"}}`, `{"spec":{"containers":[{"resources":{"limits":{"cpu":"1e999999999"}}}]}}`, `{"spec":{"containers":[{"ports":[{"containerPort":99999999999}]}]}}`,
		"kind: Pod\n---\nkind: Pod", "&a [*a]", "? {}: x", "k8s\x00", "k8s\x00\n\x02\n\x00", "\xff\xff", `{"metadata":{"name":"a","name":"b"}}`, `{"metadata":{"labels":{"a":1}}}`, string(proto), string(proto[:len(proto)/2])} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		for _, kind := range []string{"application/json", "application/yaml", protobuf} {
			for _, path := range []string{"/api/v1/namespaces/default/pods", "/apis/autoscaling/v1/namespaces/default/horizontalpodautoscalers", "/apis/events.k8s.io/v1/namespaces/default/events",
				"/api/v1/namespaces/default/services", "/apis/apps/v1/namespaces/default/deployments", "/apis/batch/v1/namespaces/default/cronjobs"} {
				x.ask(t, "POST", path, "dryRun=All", string(text), "Content-Type", kind)
			}
			x.ask(t, "PUT", mapsPath+"/there", "dryRun=All", string(text), "Content-Type", kind)
			x.ask(t, "DELETE", mapsPath+"/there", "dryRun=All", string(text), "Content-Type", kind)
		}
		x.ask(t, "POST", mapsPath, "dryRun=All", string(text), "Content-Type", "application/json", "Content-Encoding", "gzip")
	})
}

func FuzzPaths(f *testing.F) {
	x := newTarget(f)
	for _, s := range []string{"", "*", "0", "/", "//", "/api", "/api/", "/api//v1", "/api/v1/watch", "/api/v1/watch/", "/api/v1/namespaces", "/api/v1/namespaces//pods", "/api/v1/namespaces/default/pods//status", "/api/v1//pods",
		"/apis///", "/apis/apps/v1/namespaces/../deployments", "/api/v1/namespaces/default/pods/x/y/z/../..", "/api/v1/nodes/\x00", "/healthz/x/y", "/debug/pprof/../..", "/openapi/v3/../x", "/api/v1/namespaces/default/status/x",
		"/api/v1/namespaces/default/finalize", "/api/v1/watch/namespaces/default/pods/x", "/apis/apps/v1/deployments/scale/scale"} {
		for _, m := range []string{"GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "X"} {
			f.Add(m, s, "timeoutSeconds=1")
		}
	}
	f.Fuzz(func(t *testing.T, method, path, query string) {
		if strings.Contains(query, "watch") || strings.Contains(path, "watch") || strings.Contains(path, "pprof") || strings.Contains(query, "resourceVersion") {
			return // these take long
		}
		x.ask(t, method, path, query, "")
	})
}
