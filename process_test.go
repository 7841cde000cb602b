//go:build linux

package millrace_test

import (
	"bytes"
	"fmt"
	"log"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/signal"
	"runtime"
	"runtime/metrics"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	"github.com/millrace/millrace"
)

// settings are what belongs to the process, in words.
func settings(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{
		"threads": fmt.Sprint(runtime.GOMAXPROCS(0)),
		"log":     fmt.Sprintf("%p %d %q", log.Writer(), log.Flags(), log.Prefix()),
		"slog":    fmt.Sprintf("%p", slog.Default()),
		"client":  fmt.Sprintf("%p %p %+v", http.DefaultClient, http.DefaultTransport, *http.DefaultClient),
		"proxy":   fmt.Sprintf("%p", http.DefaultTransport.(*http.Transport).Proxy),
		"limits":  fmt.Sprint(http.DefaultTransport.(*http.Transport).MaxIdleConns, http.DefaultTransport.(*http.Transport).MaxIdleConnsPerHost),
		"ignored": fmt.Sprint(signal.Ignored(os.Interrupt), signal.Ignored(syscall.SIGTERM), signal.Ignored(syscall.SIGPIPE), signal.Ignored(syscall.SIGHUP)),
		"profile": fmt.Sprint(runtime.MemProfileRate, runtime.SetMutexProfileFraction(-1)),
		"klog":    fmt.Sprint(klog.V(1).Enabled(), klog.V(4).Enabled()),
	}
	environment := os.Environ()
	slices.Sort(environment)
	all["environment"] = strings.Join(environment, "\n")
	var err error
	if all["directory"], err = os.Getwd(); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"/gc/gogc:percent", "/gc/gomemlimit:bytes", "/sched/gomaxprocs:threads"} {
		sample := []metrics.Sample{{Name: name}}
		metrics.Read(sample)
		all[name] = fmt.Sprint(sample[0].Value.Uint64())
	}
	mask := syscall.Umask(0)
	syscall.Umask(mask)
	all["umask"] = fmt.Sprint(mask)
	for name, resource := range map[string]int{"files": syscall.RLIMIT_NOFILE, "core": syscall.RLIMIT_CORE, "stack": syscall.RLIMIT_STACK, "data": syscall.RLIMIT_DATA} {
		var limit syscall.Rlimit
		if err := syscall.Getrlimit(resource, &limit); err != nil {
			t.Fatal(err)
		}
		all["limit of "+name] = fmt.Sprint(limit)
	}
	for _, path := range []string{"/", "/debug/pprof/", "/metrics"} {
		_, pattern := http.DefaultServeMux.Handler(httptest.NewRequest(http.MethodGet, path, nil))
		all["default server "+path] = pattern
	}
	registered, err := prometheus.DefaultGatherer.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, family := range registered {
		names = append(names, family.GetName())
	}
	all["default metrics"] = strings.Join(names, " ")
	return all
}

func TestAClusterChangesNoSettingOfItsProcess(t *testing.T) {
	var said bytes.Buffer
	klog.SetSlogLogger(slog.New(slog.NewTextHandler(&said, nil)))
	defer klog.ClearLogger()
	before := settings(t)
	c, err := millrace.Start(t.Context(), millrace.Options{Data: t.TempDir(), Nodes: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	kube := clientset(t, c)
	for range 100 { // the server is at work
		if _, err := kube.CoreV1().Namespaces().List(t.Context(), metav1.ListOptions{}); err != nil {
			t.Error(err)
		}
	}
	compare(t, "while it runs", before, settings(t))
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	compare(t, "when it has ended", before, settings(t))
	klog.Info("still the embedder's")
	if !strings.Contains(said.String(), "still the embedder's") {
		t.Error("klog writes to somebody else")
	}
}

func compare(t *testing.T, when string, before, now map[string]string) {
	t.Helper()
	for name, was := range before {
		if now[name] != was {
			t.Errorf("%s: %s was %s, and is %s", when, name, was, now[name])
		}
	}
}
