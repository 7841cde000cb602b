package clients_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/millrace/millrace"
)

// caller sends requests unchanged.
type caller struct {
	http.RoundTripper
	host string
}

func admin(t testing.TB, c *millrace.Cluster) caller {
	t.Helper()
	return callerOf(t, c.Config())
}

func callerOf(t testing.TB, config *rest.Config) caller {
	t.Helper()
	return caller{must(rest.TransportFor(config))(t), config.Host}
}

type answer struct {
	code   int
	header http.Header
	body   string
}

func (c caller) send(t testing.TB, method, path, body string, header ...string) answer {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, c.host, strings.NewReader(body))
	if err != nil {
		t.Skip(err) // the client refuses to send this
	}
	p, query, _ := strings.Cut(path, "?")
	r.URL.Path, r.URL.RawQuery = p, query
	if body == "" {
		r.Body, r.ContentLength = nil, 0
	} else {
		r.Header.Set("Content-Type", "application/json")
	}
	r.Header.Set("Accept", "application/json")
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	res, err := c.RoundTrip(r)
	if err != nil {
		return answer{code: -1, body: err.Error()}
	}
	defer res.Body.Close()
	b, err := io.ReadAll(io.LimitReader(res.Body, 64<<20))
	if err != nil {
		return answer{code: -2, body: err.Error()}
	}
	return answer{res.StatusCode, res.Header, string(b)}
}

const mapsPath = "/api/v1/namespaces/default/configmaps"

func deep(n int) string { return strings.Repeat(`{"a":`, n) + "1" + strings.Repeat("}", n) }

func TestMalformedInputIsTheCallersMistake(t *testing.T) {
	c := start(t, millrace.Options{})
	a := admin(t, c)
	if got := a.send(t, "POST", mapsPath, `{"metadata":{"name":"there"},"data":{"k":"v"}}`); got.code != http.StatusCreated {
		t.Fatal(got)
	}
	const merge, strategic, patch, apply = "application/merge-patch+json", "application/strategic-merge-patch+json", "application/json-patch+json", "application/apply-patch+yaml"
	for name, x := range map[string]struct {
		method, path, body string
		header             []string
	}{
		"empty body":              {"POST", mapsPath, "", nil},
		"not JSON":                {"POST", mapsPath, "{", nil},
		"a list":                  {"POST", mapsPath, "[]", nil},
		"null":                    {"POST", mapsPath, "null", nil},
		"a number":                {"POST", mapsPath, "7", nil},
		"deep JSON":               {"POST", mapsPath, deep(200_000), nil},
		"deep in a map":           {"POST", mapsPath, `{"metadata":{"name":"x"},"data":` + deep(9_000) + `}`, nil},
		"deep YAML":               {"POST", mapsPath, strings.Repeat("[", 100_000), []string{"Content-Type", "application/yaml"}},
		"YAML bomb":               {"POST", mapsPath, yamlBomb(), []string{"Content-Type", "application/yaml"}},
		"wrong types":             {"POST", mapsPath, `{"metadata":{"name":7}}`, nil},
		"another kind":            {"POST", mapsPath, `{"kind":"Secret","apiVersion":"v1","metadata":{"name":"x"}}`, nil},
		"name with a slash":       {"POST", mapsPath, `{"metadata":{"name":"../../secrets/x"}}`, nil},
		"name with dots":          {"POST", mapsPath, `{"metadata":{"name":".."}}`, nil},
		"name with NUL":           {"POST", mapsPath, `{"metadata":{"name":"a\u0000b"}}`, nil},
		"name not UTF-8":          {"POST", mapsPath, "{\"metadata\":{\"name\":\"a\xff\"}}", nil},
		"no name":                 {"POST", mapsPath, `{}`, nil},
		"another namespace":       {"POST", mapsPath, `{"metadata":{"name":"x","namespace":"other"}}`, nil},
		"no such namespace":       {"POST", "/api/v1/namespaces/nowhere/configmaps", `{"metadata":{"name":"x"}}`, nil},
		"protobuf that is none":   {"POST", mapsPath, "k8s\x00\xff\xff\xff\xff", []string{"Content-Type", protobuf}},
		"protobuf of nothing":     {"POST", mapsPath, "k8s\x00", []string{"Content-Type", protobuf}},
		"protobuf without prefix": {"POST", mapsPath, "abc", []string{"Content-Type", protobuf}},
		"not gzip":                {"POST", mapsPath, "abc", []string{"Content-Encoding", "gzip"}},
		"gzip bomb":               {"POST", mapsPath, bomb(t), []string{"Content-Encoding", "gzip"}},
		"too big":                 {"POST", mapsPath, `{"metadata":{"name":"x"},"data":{"k":"` + strings.Repeat("x", 4<<20) + `"}}`, nil},
		"too big to store":        {"POST", mapsPath, `{"metadata":{"name":"x"},"data":{"k":"` + strings.Repeat("x", 2<<20) + `"}}`, nil},
		"unknown media type":      {"POST", mapsPath, "{}", []string{"Content-Type", "text/html"}},
		"broken media type":       {"POST", mapsPath, "{}", []string{"Content-Type", "application/json; ="}},
		"CBOR":                    {"POST", mapsPath, "\xd9\xd9\xf7\xa0", []string{"Content-Type", "application/cbor"}},
		"Accept nothing":          {"GET", mapsPath, "", []string{"Accept", "text/html"}},
		"Accept another shape":    {"GET", mapsPath, "", []string{"Accept", "application/json;as=Nothing;g=meta.k8s.io;v=v1"}},
		"bad label selector":      {"GET", mapsPath + "?labelSelector=a+in+(", "", nil},
		"bad field selector":      {"GET", mapsPath + "?fieldSelector=metadata.name", "", nil},
		"unknown field":           {"GET", mapsPath + "?fieldSelector=spec.x%3D1", "", nil},
		"bad continue":            {"GET", mapsPath + "?continue=%00%ff", "", nil},
		"continue elsewhere":      {"GET", mapsPath + "?continue=eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6Miwic3RhcnQiOiIuLi8uLi9zZWNyZXRzL2RlZmF1bHQvYSJ9", "", nil},
		"bad version":             {"GET", mapsPath + "?resourceVersion=abc", "", nil},
		"negative version":        {"GET", mapsPath + "?resourceVersion=-5", "", nil},
		"huge version":            {"GET", mapsPath + "?resourceVersion=99999999999999999999999", "", nil},
		"bad match":               {"GET", mapsPath + "?resourceVersion=1&resourceVersionMatch=Perhaps", "", nil},
		"bad limit":               {"GET", mapsPath + "?limit=x", "", nil},
		"bad timeout":             {"GET", mapsPath + "?watch=1&timeoutSeconds=x", "", nil},
		"watch by a bad selector": {"GET", mapsPath + "?watch=1&labelSelector=((", "", nil},
		"watch of a bad version":  {"GET", mapsPath + "?watch=1&resourceVersion=x", "", nil},
		"watch without a match":   {"GET", mapsPath + "?watch=1&sendInitialEvents=true", "", nil},
		"watch as YAML":           {"GET", mapsPath + "?watch=1", "", []string{"Accept", "application/yaml"}},
		"watch what cannot be":    {"GET", "/api/v1/componentstatuses?watch=1", "", nil},
		"bad includeObject":       {"GET", mapsPath + "?includeObject=Some", "", []string{"Accept", "application/json;as=Table;g=meta.k8s.io;v=v1"}},
		"bad dryRun":              {"POST", mapsPath + "?dryRun=Some", "{}", nil},
		"bad fieldValidation":     {"POST", mapsPath + "?fieldValidation=Some", "{}", nil},
		"bad fieldManager":        {"POST", mapsPath + "?fieldManager=%01", "{}", nil},
		"long fieldManager":       {"POST", mapsPath + "?fieldManager=" + strings.Repeat("x", 200), "{}", nil},
		"unknown method":          {"BREW", mapsPath, "", nil},
		"TRACE":                   {"TRACE", mapsPath + "/there", "", nil},
		"CONNECT a map":           {"OPTIONS", mapsPath + "/there", "", nil},
		"put a collection":        {"PUT", mapsPath, "{}", nil},
		"post a name":             {"POST", mapsPath + "/there", "{}", nil},
		"dots in the path":        {"GET", mapsPath + "/../../../secrets", "", nil},
		"NUL in the path":         {"GET", mapsPath + "/a\x00b", "", nil},
		"not UTF-8 in the path":   {"GET", mapsPath + "/\xff\xfe", "", nil},
		"a long path":             {"GET", "/" + strings.Repeat("a/", 5000), "", nil},
		"nodes in a namespace":    {"GET", "/api/v1/namespaces/default/nodes", "", nil},
		"a name without its home": {"GET", "/api/v1/configmaps/there", "", nil},
		"an unknown subresource":  {"GET", mapsPath + "/there/nothing", "", nil},
		"pprof of nothing":        {"GET", "/debug/nothing", "", nil},
		"JSON patch no list":      {"PATCH", mapsPath + "/there", `{}`, []string{"Content-Type", patch}},
		"JSON patch nowhere":      {"PATCH", mapsPath + "/there", `[{"op":"remove","path":"/no/where"}]`, []string{"Content-Type", patch}},
		"JSON patch beyond":       {"PATCH", mapsPath + "/there", `[{"op":"add","path":"/metadata/finalizers","value":[]},{"op":"replace","path":"/metadata/finalizers/99999999","value":"x"}]`, []string{"Content-Type", patch}},
		"JSON patch no op":        {"PATCH", mapsPath + "/there", `[{}]`, []string{"Content-Type", patch}},
		"JSON patch null":         {"PATCH", mapsPath + "/there", `[null]`, []string{"Content-Type", patch}},
		"JSON patch the root":     {"PATCH", mapsPath + "/there", `[{"op":"replace","path":"","value":null}]`, []string{"Content-Type", patch}},
		"JSON patch doubling":     {"PATCH", mapsPath + "/there", doubling(), []string{"Content-Type", patch}},
		"JSON patch many":         {"PATCH", mapsPath + "/there", `[` + strings.Repeat(`{"op":"test","path":"/data/k","value":"v"},`, 10_001) + `{}]`, []string{"Content-Type", patch}},
		"merge patch a list":      {"PATCH", mapsPath + "/there", `[]`, []string{"Content-Type", merge}},
		"merge patch null":        {"PATCH", mapsPath + "/there", `{"metadata":null}`, []string{"Content-Type", merge}},
		"merge patch deep":        {"PATCH", mapsPath + "/there", deep(100_000), []string{"Content-Type", merge}},
		"merge patch rename":      {"PATCH", mapsPath + "/there", `{"metadata":{"name":"else"}}`, []string{"Content-Type", merge}},
		"strategic wrong":         {"PATCH", mapsPath + "/there", `{"metadata":"x"}`, []string{"Content-Type", strategic}},
		"strategic odd order":     {"PATCH", mapsPath + "/there", `{"metadata":{"$setElementOrder/ownerReferences":7}}`, []string{"Content-Type", strategic}},
		"strategic retain":        {"PATCH", mapsPath + "/there", `{"$retainKeys":"x"}`, []string{"Content-Type", strategic}},
		"apply nothing":           {"PATCH", mapsPath + "/there?fieldManager=m", ``, []string{"Content-Type", apply}},
		"apply a list":            {"PATCH", mapsPath + "/there?fieldManager=m", `[]`, []string{"Content-Type", apply}},
		"apply no kind":           {"PATCH", mapsPath + "/there?fieldManager=m", `{"metadata":{"name":"there"}}`, []string{"Content-Type", apply}},
		"apply wrong types":       {"PATCH", mapsPath + "/there?fieldManager=m", `{"kind":"ConfigMap","apiVersion":"v1","data":[1]}`, []string{"Content-Type", apply}},
		"apply wrong metadata":    {"PATCH", mapsPath + "/there?fieldManager=m", `{"kind":"ConfigMap","apiVersion":"v1","metadata":"x"}`, []string{"Content-Type", apply}},
		"apply wrong kind":        {"PATCH", mapsPath + "/there?fieldManager=m", `{"kind":7,"apiVersion":"v1"}`, []string{"Content-Type", apply}},
		"apply without a manager": {"PATCH", mapsPath + "/there", `{"kind":"ConfigMap","apiVersion":"v1"}`, []string{"Content-Type", apply}},
		"apply deep":              {"PATCH", mapsPath + "/there?fieldManager=m", `{"kind":"ConfigMap","apiVersion":"v1","data":` + deep(9_000) + `}`, []string{"Content-Type", apply}},
		"patch of no type":        {"PATCH", mapsPath + "/there", `{}`, nil},
		"patch of nothing":        {"PATCH", mapsPath + "/nothing", `{}`, []string{"Content-Type", merge}},
		"delete options broken":   {"DELETE", mapsPath + "/there", `{"gracePeriodSeconds":"x"}`, nil},
		"delete options empty":    {"DELETE", mapsPath + "/there?gracePeriodSeconds=", ``, nil},
		"delete by another kind":  {"DELETE", mapsPath + "/there", `{"kind":"Pod","apiVersion":"v1"}`, nil},
		"delete by a selector":    {"DELETE", mapsPath + "?labelSelector=((", ``, nil},
		"scale of no scale":       {"GET", mapsPath + "/there/scale", ``, nil},
		"a binding of nothing":    {"POST", "/api/v1/namespaces/default/pods/p/binding", `{}`, nil},
		"review of nothing":       {"POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", `{"spec":{}}`, nil},
		"get a review":            {"GET", "/apis/authorization.k8s.io/v1/subjectaccessreviews", ``, nil},
	} {
		t.Run(name, func(t *testing.T) {
			got := a.send(t, x.method, x.path, x.body, x.header...)
			if got.code < 400 || got.code >= 500 {
				t.Errorf("%d %.300s", got.code, got.body)
			}
		})
	}
	// Input without a meaning that does no harm may be accepted.
	for _, text := range []string{`{"metadata":{"ownerReferences":[{"$patch":"what"}]}}`, deep(9_000), `{"metadata":{"$deleteFromPrimitiveList/finalizers":{"a":1}}}`,
		`{"metadata":{"managedFields":[{"manager":"x","operation":"Update","fieldsType":"FieldsV1","fieldsV1":{"f:":{"k:{":7}}}]}}`} {
		if got := a.send(t, "PATCH", mapsPath+"/there", text, "Content-Type", strategic); got.code >= 500 || got.code < 200 {
			t.Errorf("%.60s: %d %.300s", text, got.code, got.body)
		}
	}
	if got := a.send(t, "GET", mapsPath+"/there", ""); got.code != http.StatusOK {
		t.Errorf("afterwards: %d %s", got.code, got.body)
	}
}

func yamlBomb() string {
	b := strings.Builder{}
	b.WriteString("a0: &a0 [x,x,x,x,x,x,x,x,x]\n")
	for i := range 12 {
		fmt.Fprintf(&b, "a%d: &a%d [*a%d,*a%d,*a%d,*a%d,*a%d,*a%d,*a%d,*a%d]\n", i+1, i+1, i, i, i, i, i, i, i, i)
	}
	return b.String()
}

func bomb(t testing.TB) string {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	for range 256 {
		if _, err := z.Write(make([]byte, 1<<20)); err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// doubling returns a document that copies everything into itself, again and again.
func doubling() string {
	var b strings.Builder
	b.WriteString(`[{"op":"add","path":"/x","value":{}}`)
	for i := range 60 {
		fmt.Fprintf(&b, `,{"op":"copy","from":"/x","path":"/x/%d"}`, i)
	}
	return b.String() + "]"
}

func TestHugeHeadersAreRefusedOrBorne(t *testing.T) {
	a := admin(t, start(t, millrace.Options{}))
	for name, header := range map[string][]string{
		"Accept":     {"Accept", strings.Repeat("text/html,", 80_000)},
		"User-Agent": {"User-Agent", strings.Repeat("x", 900_000)},
		"too much":   {"X-Junk", strings.Repeat("x", 3<<20)},
	} {
		if got := a.send(t, "GET", mapsPath, "", header...); got.code >= 500 {
			t.Errorf("%s: %d %.100s", name, got.code, got.body)
		}
	}
	if got := a.send(t, "GET", mapsPath, ""); got.code != http.StatusOK {
		t.Errorf("afterwards: %d", got.code)
	}
}

func TestLongWarningsDoNotBreakTheAnswer(t *testing.T) {
	a := admin(t, start(t, millrace.Options{}))
	got := a.send(t, "POST", mapsPath, `{"metadata":{"name":"x"},"`+strings.Repeat("y", 1<<20)+`":1,"a\r\nb":2}`)
	if got.code != http.StatusCreated || len(got.header.Get("Warning")) > 4096 {
		t.Errorf("%d, a warning of %d bytes", got.code, len(got.header.Get("Warning")))
	}
}

func TestStringsThatAreNotUTF8NeverMakeBrokenJSON(t *testing.T) {
	c := start(t, millrace.Options{})
	config := c.Config()
	config.ContentType = protobuf
	k := clientset(t, config)
	m := configMap("odd", nil)
	m.Annotations = map[string]string{"a": "x\xffy"}
	m.Data["k"] = "\xc3\x28\x00\u2028</script>"
	if _, err := k.CoreV1().ConfigMaps("default").Create(t.Context(), m, metav1.CreateOptions{}); err != nil {
		t.Logf("refused: %v", err)
		return
	}
	a := admin(t, c)
	for _, path := range []string{mapsPath + "/odd", mapsPath, mapsPath + "?pretty=true"} {
		for _, accept := range []string{"application/json", "application/json;as=Table;g=meta.k8s.io;v=v1", "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"} {
			got := a.send(t, "GET", path, "", "Accept", accept)
			if got.code == http.StatusOK && !json.Valid([]byte(got.body)) || got.code >= 500 {
				t.Errorf("%s as %s: %d %.200q", path, accept, got.code, got.body)
			}
		}
	}
}

func TestStrangersSeeHealthAndVersionAlone(t *testing.T) {
	tokens := filepath.Join(t.TempDir(), "tokens")
	if err := os.WriteFile(tokens, []byte("good,root,1,system:masters\nweak,nobody,2,\"a,b\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c := start(t, millrace.Options{TokenFile: tokens})
	config := c.Config()
	config.CertData, config.KeyData = nil, nil
	anonymous := callerOf(t, config)
	for path, want := range map[string]int{
		"/healthz": 200, "/livez": 200, "/readyz": 200, "/readyz/etcd": 403, "/version": 200, "/version/": 200, "/healthz/../api/v1/pods": 0,
		"/": 403, "/api": 403, "/apis": 403, "/api/v1/pods": 403, "/api/v1/nothings": 403, "/metrics": 403, "/openapi/v2": 403, "/openapi/v3": 403,
		"/debug/pprof/": 403, "/debug/pprof/heap": 403, "/api/v1/namespaces/default/secrets?watch=true": 403, "//api/v1/pods": 403, "/versions": 403,
		"/apis/apps/v1/deployments": 403, "/.well-known/openid-configuration": 403, "/healthzz": 403, "/api/v1/watch/pods": 403, "/version/x": 403,
	} {
		got := anonymous.send(t, "GET", path, "")
		if want != 0 && got.code != want {
			t.Errorf("%s: %d %.120s", path, got.code, got.body)
		}
		if strings.Contains(got.body, `"items"`) {
			t.Errorf("%s shows %.200s", path, got.body)
		}
	}
	for name, x := range map[string]struct {
		header []string
		want   int
	}{
		"good token":         {[]string{"Authorization", "Bearer good"}, 200},
		"any case":           {[]string{"Authorization", "bearer good"}, 200},
		"a token of no rank": {[]string{"Authorization", "Bearer weak"}, 403},
		"wrong token":        {[]string{"Authorization", "Bearer wrong"}, 401},
		"empty token":        {[]string{"Authorization", "Bearer "}, 401},
		"a token like JWT":   {[]string{"Authorization", "Bearer eyJhbGciOiJub25lIn0.eyJzdWIiOiJzeXN0ZW06c2VydmljZWFjY291bnQ6ZGVmYXVsdDpkZWZhdWx0In0."}, 401},
		"huge token":         {[]string{"Authorization", "Bearer " + strings.Repeat("a.", 100_000)}, 401},
		"basic":              {[]string{"Authorization", "Basic cm9vdDpyb290"}, 403},
		"impersonation":      {[]string{"Authorization", "Bearer good", "Impersonate-User", "root"}, 403},
		"a group alone":      {[]string{"Authorization", "Bearer good", "Impersonate-Group", "system:masters"}, 400},
		"an extra alone":     {[]string{"Authorization", "Bearer good", "Impersonate-Extra-X", "y"}, 400},
		"front proxy":        {[]string{"X-Remote-User", "root", "X-Remote-Group", "system:masters"}, 403},
	} {
		got := anonymous.send(t, "GET", "/api/v1/pods", "", x.header...)
		if got.code != x.want {
			t.Errorf("%s: %d %.200s", name, got.code, got.body)
		}
	}
}

func TestCertificatesOfOtherAuthoritiesAreRefused(t *testing.T) {
	c := start(t, millrace.Options{})
	other, err := millrace.Start(t.Context(), millrace.Options{Controllers: []string{}, NoScheduler: true})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	certs := map[string]func(*rest.Config){
		"another cluster's": func(config *rest.Config) {
			config.CertData, config.KeyData = other.Config().CertData, other.Config().KeyData
		},
		"its own": func(config *rest.Config) { config.CertData, config.KeyData = selfSigned(t) },
	}
	for name, use := range certs {
		config := c.Config()
		use(config)
		if got := callerOf(t, config).send(t, "GET", "/api/v1/pods", ""); got.code != 401 {
			t.Errorf("%s: %d %.100s", name, got.code, got.body)
		}
	}
}

func selfSigned(t *testing.T) (cert, key []byte) {
	private := must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "kubernetes-admin", Organization: []string{"system:masters"}},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
	der := must(x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private))(t)
	keyDER := must(x509.MarshalECPrivateKey(private))(t)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: keyDER})
}

func TestPlainHTTPAndOldTLSAreRefused(t *testing.T) {
	c := start(t, millrace.Options{})
	u := must(url.Parse(c.URL()))(t)
	conn := must(net.Dial("tcp", u.Host))(t)
	defer conn.Close()
	fmt.Fprintf(conn, "GET /api/v1/pods HTTP/1.1\r\nHost: x\r\n\r\n")
	if b, _ := io.ReadAll(conn); strings.Contains(string(b), "items") {
		t.Errorf("%s", b)
	}
	_, err := tls.Dial("tcp", u.Host, &tls.Config{InsecureSkipVerify: true, MaxVersion: tls.VersionTLS11, MinVersion: tls.VersionTLS10})
	if err == nil {
		t.Error("TLS 1.1 was accepted")
	}
}

func TestATruncatedBodyIsNotTaken(t *testing.T) {
	c := start(t, millrace.Options{})
	config := c.Config()
	tlsConfig := must(rest.TLSConfigFor(config))(t)
	u := must(url.Parse(c.URL()))(t)
	tlsConfig.NextProtos = nil
	conn := must(tls.Dial("tcp", u.Host, tlsConfig))(t)
	fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{\"metadata\":{\"name\":\"half\"}}", mapsPath)
	if err := conn.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	_, _ = io.ReadAll(conn)
	conn.Close()
	if got := admin(t, c).send(t, "GET", mapsPath+"/half", ""); got.code != http.StatusNotFound {
		t.Errorf("%d %s", got.code, got.body)
	}
}

func TestCutWatchesLeaveNoGoroutine(t *testing.T) {
	c := start(t, millrace.Options{})
	k := clientset(t, c.Config())
	must(k.CoreV1().Pods("").List(t.Context(), metav1.ListOptions{}))(t)
	must(k.CoreV1().ConfigMaps("default").Create(t.Context(), configMap("a", nil), metav1.CreateOptions{}))(t)
	before := goleak.IgnoreCurrent()
	var wg sync.WaitGroup
	for i := range 100 {
		wg.Go(func() {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			w, err := k.CoreV1().ConfigMaps("").Watch(ctx, metav1.ListOptions{ResourceVersion: "0"})
			if err != nil {
				t.Error(err)
				return
			}
			if i%2 == 0 {
				w.Stop()
				return
			}
			<-w.ResultChan()
			cancel()
			for range w.ResultChan() {
				// until it ends
			}
		})
	}
	wg.Wait()
	// The server keeps some goroutines that wait for the next request.
	goleak.VerifyNone(t, before, goleak.IgnoreAnyFunction("github.com/millrace/millrace/internal/workers.(*Pool).work"))
}

func TestAThousandOpenWatchesDoNotHoldUpTheEnd(t *testing.T) {
	c, err := millrace.Start(t.Context(), millrace.Options{Controllers: []string{}, NoScheduler: true})
	if err != nil {
		t.Fatal(err)
	}
	k := clientset(t, c.Config())
	inside := clientset(t, c.InProcess())
	var wg sync.WaitGroup
	open := make(chan struct{}, 1000)
	for i := range 1000 {
		wg.Go(func() {
			from := k
			if i%10 == 0 {
				from = inside
			}
			w, err := from.CoreV1().ConfigMaps("").Watch(context.Background(), metav1.ListOptions{ResourceVersion: "0"})
			open <- struct{}{}
			if err != nil {
				t.Error(err)
				return
			}
			for range w.ResultChan() {
				// until it ends
			}
		})
	}
	for range 1000 {
		<-open
	}
	began := time.Now()
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	t.Logf("closed after %v", time.Since(began)) // the promise is two seconds; a busy machine may take longer
	wg.Wait()
}

// A watcher that never reads must not delay other watchers or the shutdown.
func TestWatchersThatNeverReadHoldUpNobody(t *testing.T) {
	c, err := millrace.Start(t.Context(), millrace.Options{Controllers: []string{}, NoScheduler: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, config := range []*rest.Config{c.Config(), c.InProcess()} {
		stuck := callerOf(t, config)
		if config.Transport != nil {
			stuck.RoundTripper = config.Transport
		}
		for range 3 {
			r := must(http.NewRequest("GET", config.Host+"/api/v1/configmaps?watch=true", nil))(t)
			res := must(stuck.RoundTrip(r))(t)
			defer res.Body.Close()
		}
	}
	k := clientset(t, c.Config())
	w := must(k.CoreV1().ConfigMaps("default").Watch(t.Context(), metav1.ListOptions{ResourceVersion: "0", FieldSelector: "metadata.name!=kube-root-ca.crt"}))(t)
	defer w.Stop()
	big := map[string]string{"k": strings.Repeat("x", 500_000)}
	for i := range 20 {
		must(k.CoreV1().ConfigMaps("default").Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("big", i)}, Data: big}, metav1.CreateOptions{}))(t)
		if e := next(t, w); e.Object.(*corev1.ConfigMap).Name != fmt.Sprint("big", i) {
			t.Errorf("%v", e.Type)
		}
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}
