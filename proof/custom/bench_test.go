package custom_test

import (
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/millrace/millrace/internal/cputime"
	"github.com/millrace/millrace/millracetest"
)

// sample is an object of 1 KB: of a custom resource, or a config map for comparison.
type sample struct {
	name, path, head, content, patch string
}

var samples = []sample{
	{"custom", "/apis/example.com/v1/namespaces/default/tabs", `"apiVersion":"example.com/v1","kind":"Tab"`,
		`"spec":{"color":"red","replicas":%d,"size":"large","ports":[{"name":"http","port":80},{"name":"https","port":443}]}`, `{"spec":{"replicas":%d}}`},
	{"configmap", "/api/v1/namespaces/default/configmaps", `"apiVersion":"v1","kind":"ConfigMap"`,
		`"data":{"color":"red","replicas":"%d","size":"large","http":"80","https":"443"}`, `{"data":{"replicas":"%d"}}`},
}

func (s sample) object(name string, n int) string { return s.objectOf(name, "", n) }

func (s sample) objectOf(name, version string, n int) string {
	if version != "" {
		version = fmt.Sprintf(`"resourceVersion":%q,`, version)
	}
	return fmt.Sprintf(`{%s,"metadata":{"name":%q,%s"labels":{"app":"web"},"annotations":{"text":%q}},`+s.content+`}`, s.head, name, version, strings.Repeat("x", 700), n)
}

// caller sends requests to a server in this process and reads the answers.
type caller struct {
	*testing.B
	client *http.Client
	host   string
}

func (c caller) do(method, path, contentType, body string) (answer string) {
	c.Helper()
	r, err := http.NewRequestWithContext(c.Context(), method, c.host+path, strings.NewReader(body))
	if err != nil {
		c.Fatal(err)
	}
	r.Header.Set("Content-Type", contentType)
	r.Header.Set("User-Agent", "bench")
	sent, err := c.client.Do(r)
	if err != nil {
		c.Fatal(err)
	}
	text, err := io.ReadAll(sent.Body)
	sent.Body.Close()
	if err != nil || sent.StatusCode >= http.StatusBadRequest {
		c.Fatalf("%s %s: %s (%v)", method, path, text, err)
	}
	return string(text)
}

// versionIn returns the resource version of an object.
func versionIn(object string) string {
	_, rest, _ := strings.Cut(object, `"resourceVersion":"`)
	version, _, _ := strings.Cut(rest, `"`)
	return version
}

// BenchmarkBesideConfigMaps compares the server's work for custom resources with that for config maps of the same size,
// in turns, without a connection.
func BenchmarkBesideConfigMaps(b *testing.B) {
	config := millracetest.API(b)
	config.QPS = -1
	d, err := dynamic.NewForConfig(config)
	if err != nil {
		b.Fatal(err)
	}
	defineFor(b, d)
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		b.Fatal(err)
	}
	at := 0
	versions := map[string]string{} // of the objects that are updated
	prepare := caller{b, client, config.Host}
	for _, s := range samples {
		prepare.do("POST", s.path, "application/json", s.object("first", 0))
		versions[s.name] = versionIn(prepare.do("POST", s.path, "application/json", s.object("second", 0)))
	}
	for _, verb := range []string{"create", "get", "patch", "update", "apply", "apply/new"} {
		b.Run(verb, func(b *testing.B) {
			c := caller{b, client, config.Host}
			do := map[string]func(s sample){
				"create": func(s sample) { c.do("POST", s.path, "application/json", s.object(fmt.Sprint("o", at), at)) },
				"get":    func(s sample) { c.do("GET", s.path+"/first", "", "") },
				"patch":  func(s sample) { c.do("PATCH", s.path+"/first", string(types.MergePatchType), fmt.Sprintf(s.patch, at)) },
				"update": func(s sample) {
					versions[s.name] = versionIn(c.do("PUT", s.path+"/second", "application/json", s.objectOf("second", versions[s.name], at)))
				},
				"apply": func(s sample) {
					c.do("PATCH", s.path+"/applied?fieldManager=m&force=true", string(types.ApplyPatchType), s.object("applied", at))
				},
				"apply/new": func(s sample) {
					name := fmt.Sprint("a", at)
					c.do("PATCH", s.path+"/"+name+"?fieldManager=m", string(types.ApplyPatchType), s.object(name, at))
				},
			}[verb]
			for _, s := range samples {
				at++
				do(s)
			}
			var taken [2]time.Duration
			const turn = 50
			n := 0
			for b.Loop() {
				n++
				for i, s := range samples {
					begun := cputime.Process()
					for range turn {
						at++
						do(s)
					}
					taken[i] += cputime.Process() - begun
				}
			}
			for i, s := range samples {
				b.ReportMetric(float64(taken[i].Microseconds())/float64(turn*n), s.name+"-µs-of-CPU/request")
			}
			b.ReportMetric(float64(taken[1])/float64(taken[0]), "of-the-rate-of-config-maps")
			b.ReportMetric(0, "ns/op")
		})
	}
}

func defineFor(b *testing.B, d dynamic.Interface) {
	b.Helper()
	made, err := d.Resource(definitions).Create(b.Context(), parse(b, definition), metav1.CreateOptions{})
	for ; err == nil && condition(made, "Established") != "True"; made, err = d.Resource(definitions).Get(b.Context(), "tabs.example.com", metav1.GetOptions{}) {
	}
	if err != nil {
		b.Fatal(err)
	}
}

// BenchmarkListsOfManyObjects compares lists of 10,000 custom resources with lists of as many config maps of the same
// size.
func BenchmarkListsOfManyObjects(b *testing.B) {
	config := millracetest.API(b)
	config.QPS = -1
	d, err := dynamic.NewForConfig(config)
	if err != nil {
		b.Fatal(err)
	}
	defineFor(b, d)
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		b.Fatal(err)
	}
	c := caller{b, client, config.Host}
	const objects = 10_000
	for i := range objects {
		for _, s := range samples {
			c.do("POST", s.path, "application/json", s.object(fmt.Sprint("o", i), i))
		}
	}
	for name, query := range map[string]string{"whole": "", "pages": "?limit=500", "changed": "", "selected": "?labelSelector=app%3Dother"} {
		b.Run(name, func(b *testing.B) {
			c := caller{b, client, config.Host}
			var taken [2]time.Duration
			n := 0
			for _, s := range samples {
				c.do("GET", s.path+query, "", "")
			}
			for b.Loop() {
				for i, s := range samples {
					if name == "changed" { // so that what was made for the last list is of no use for a tenth of the objects
						for at := n % 10; at < objects; at += 10 {
							c.do("PATCH", s.path+fmt.Sprint("/o", at), string(types.MergePatchType), fmt.Sprintf(s.patch, n+1))
						}
					}
					begun := cputime.Process()
					c.do("GET", s.path+query, "", "")
					taken[i] += cputime.Process() - begun
				}
				n++
			}
			for i, s := range samples {
				b.ReportMetric(float64(taken[i].Microseconds())/float64(n), s.name+"-µs-of-CPU/list")
			}
			b.ReportMetric(float64(taken[0])/float64(taken[1]), "of-the-cost-of-config-maps")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// largeDefinition is as large as those of large operators: 40 KB, mostly of fields that no object has.
func largeDefinition(n int) string {
	text := `{"type":"string","description":"` + strings.Repeat("a few words that describe a field ", 20) + `"}`
	nested := `{"type":"object","properties":{"name":` + text + `,"value":` + text + `,"list":{"type":"array","items":` + text + `}}}`
	var fields strings.Builder
	for i := 0; fields.Len() < 38<<10; i++ {
		fmt.Fprintf(&fields, `,"field%d":%s`, i, nested)
	}
	return fmt.Sprintf(`{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"larges%d.g%d.example.com"},"spec":{
		"group":"g%d.example.com","scope":"Namespaced","names":{"plural":"larges%d","kind":"Large%d"},"versions":[{"name":"v1","served":true,"storage":true,
		"subresources":{"status":{}},"schema":{"openAPIV3Schema":{"type":"object","properties":{"spec":{"type":"object","properties":{
		"replicas":{"type":"integer","default":1,"minimum":0}%s}},"status":{"type":"object","properties":{"note":%s}}}}}}]}}`, n, n, n, n, n, fields.String(), text)
}

// BenchmarkDefinitionUntilItsFirstObject is how much CPU time a large definition takes until its first object is
// stored.
func BenchmarkDefinitionUntilItsFirstObject(b *testing.B) {
	config := millracetest.API(b)
	config.QPS = -1
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		b.Fatal(err)
	}
	c := caller{b, client, config.Host}
	const definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
	var served, stored time.Duration
	n := 0
	once := func() (served, stored time.Duration) {
		n++
		begun := cputime.Process()
		made := c.do("POST", definitions, "application/json", largeDefinition(n))
		for !strings.Contains(made, `"type":"Established"`) {
			runtime.Gosched()
			made = c.do("GET", fmt.Sprintf("%s/larges%d.g%d.example.com", definitions, n, n), "", "")
		}
		served = cputime.Process() - begun
		c.do("POST", fmt.Sprintf("/apis/g%d.example.com/v1/namespaces/default/larges%d", n, n), "application/json",
			fmt.Sprintf(`{"apiVersion":"g%d.example.com/v1","kind":"Large%d","metadata":{"name":"a"},"spec":{"field0":{"name":"a"}}}`, n, n))
		return served, cputime.Process() - begun
	}
	_, first := once() // in which much is made that all definitions share
	for b.Loop() {
		s, o := once()
		served, stored = served+s, stored+o
	}
	b.ReportMetric(float64(first.Microseconds()), "µs-of-CPU/first-definition")
	b.ReportMetric(float64(served.Microseconds())/float64(b.N), "µs-of-CPU/served")
	b.ReportMetric(float64(stored.Microseconds())/float64(b.N), "µs-of-CPU/first-object")
	b.ReportMetric(0, "ns/op")
}
