package custom_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

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

// BenchmarkBesideConfigMaps compares the server's work for custom resources with that for config maps of the same size, in turns,
// without a connection.
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
					begun := processorTime()
					for range turn {
						at++
						do(s)
					}
					taken[i] += processorTime() - begun
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

// processorTime returns the CPU time of this process.
func processorTime() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
