package millracetest_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/millracetest"
)

// trial is a test within the test: it keeps what it says and may fail.
type trial struct {
	testing.TB
	said    strings.Builder
	failed  bool
	cleanup []func()
}

func (t *trial) Helper()                           {}
func (t *trial) Failed() bool                      { return t.failed }
func (t *trial) Cleanup(f func())                  { t.cleanup = append(t.cleanup, f) }
func (t *trial) Logf(format string, args ...any)   { fmt.Fprintf(&t.said, format+"\n", args...) }
func (t *trial) Errorf(format string, args ...any) { t.Logf(format, args...); t.failed = true }
func (t *trial) Fatalf(format string, args ...any) { t.Errorf(format, args...); runtime.Goexit() }

// try runs a test to its end, and returns what it said.
func try(t *testing.T, test func(testing.TB)) (said string, failed bool) {
	t.Helper()
	inner := &trial{TB: t}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		defer func() {
			for i := len(inner.cleanup) - 1; i >= 0; i-- {
				inner.cleanup[i]()
			}
		}()
		test(inner)
	}()
	<-ended
	return inner.said.String(), inner.failed
}

// must checks that a text has some parts, in order.
func must(t *testing.T, text string, parts ...string) {
	t.Helper()
	rest := text
	for _, p := range parts {
		_, after, ok := strings.Cut(rest, p)
		if !ok {
			t.Errorf("%q is missing, in its place, in\n%s", p, text)
			return
		}
		rest = after
	}
}

func configMap(name string, data map[string]string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: data}
}

func create(t testing.TB, kube kubernetes.Interface, c *corev1.ConfigMap) {
	t.Helper()
	if _, err := kube.CoreV1().ConfigMaps("default").Create(t.Context(), c, metav1.CreateOptions{FieldManager: "the-test"}); err != nil {
		t.Fatal(err)
	}
}

func virtual(t testing.TB) *kubernetes.Clientset {
	return millracetest.Clientset(t, millracetest.Start(t, millrace.Options{Listen: "none", Controllers: []string{}, NoScheduler: true}))
}

func TestWaitReturnsTheObjectAsItIsWanted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kube := virtual(t)
		maps := kube.CoreV1().ConfigMaps("default")
		go func() {
			time.Sleep(time.Second)
			create(t, kube, configMap("c", nil))
			time.Sleep(time.Second)
			if _, err := maps.Update(t.Context(), configMap("c", map[string]string{"k": "v"}), metav1.UpdateOptions{}); err != nil {
				t.Error(err)
			}
			time.Sleep(time.Second)
			if err := maps.Delete(t.Context(), "c", metav1.DeleteOptions{}); err != nil {
				t.Error(err)
			}
		}()
		c := millracetest.Wait(t, maps, "c", func(c *corev1.ConfigMap) bool { return c.Data["k"] == "v" })
		if c.Name != "c" || c.Data["k"] != "v" {
			t.Errorf("%+v", c)
		}
		millracetest.WaitGone(t, maps, "c")
		millracetest.WaitGone(t, maps, "never")
	})
}

func TestWaitSaysWhatWasSeenAndWhoWroteIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kube := virtual(t)
		maps := kube.CoreV1().ConfigMaps("default")
		said, failed := try(t, func(inner testing.TB) {
			go func() {
				time.Sleep(time.Second)
				create(t, kube, configMap("c", map[string]string{"k": "v", "old": "x"}))
				time.Sleep(time.Second)
				_, err := maps.Update(t.Context(), configMap("c", map[string]string{"k": "w", "new": "y"}), metav1.UpdateOptions{FieldManager: "the-operator"})
				if err != nil {
					t.Error(err)
				}
			}()
			millracetest.Wait(inner, maps, "c", func(c *corev1.ConfigMap) bool { return c.Data["k"] == "x" })
		})
		if !failed {
			t.Fatal("it did not fail")
		}
		must(t, said, "c is not as it should be: it took too long", "after 0s it is not there", "after 1s, at resource version", "it was created by the-test (Update)",
			"after 2s, at resource version", "it was changed by the-operator (Update)", `data.k was "v" and is "w"`, `data.new is now "y"`, `data.old was "x" and is gone`)

		said, _ = try(t, func(inner testing.TB) { millracetest.WaitGone(inner, maps, "c") })
		must(t, said, "c has not gone: it took too long", "it is there by the-")
	})
}

func TestAFailedTestTellsTheRequestsThatChangedSomething(t *testing.T) {
	test := func(fail bool) (string, bool) {
		return try(t, func(inner testing.TB) {
			cluster := millracetest.Start(inner, millrace.Options{Listen: "none", Controllers: []string{}, NoScheduler: true})
			create(inner, millracetest.Clientset(inner, cluster), configMap("made-by-the-test", nil))
			jane := millracetest.User(inner, cluster, "jane", "devs")
			if _, err := jane.CoreV1().ConfigMaps("default").Create(inner.Context(), configMap("x", nil), metav1.CreateOptions{}); !apierrors.IsForbidden(err) {
				inner.Errorf("jane may create: %v", err)
			}
			if fail {
				inner.Errorf("it went wrong")
			}
		})
	}
	said, _ := test(true)
	must(t, said, "the last requests that were to change something:", "create  configmaps default/made-by-the-test by ", ": 201\n",
		"create  configmaps default", "by jane (", `: 403 configmaps is forbidden: User "jane" cannot create`)
	if said, failed := test(false); failed || strings.Contains(said, "the last requests") {
		t.Errorf("a test that has not failed says %s", said)
	}
}

func TestGoldenFilesLeaveOutWhatDiffersFromRunToRun(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pod.yaml")
	pod := func(image string) *corev1.Pod {
		kube := virtual(t)
		p, err := kube.CoreV1().Pods("default").Create(t.Context(), &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{GenerateName: "web-"},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: image}}},
		}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		p.Status.PodIP = fmt.Sprintf("10.0.0.%d", len(p.Name))
		return p
	}
	t.Setenv("MILLRACE_GOLDEN", "update")
	millracetest.Golden(t, file, pod("a"))
	t.Setenv("MILLRACE_GOLDEN", "")
	if said, failed := try(t, func(inner testing.TB) { millracetest.Golden(inner, file, pod("a")) }); failed {
		t.Errorf("the same pod, made again, is another one:\n%s", said)
	}
	said, failed := try(t, func(inner testing.TB) { millracetest.Golden(inner, file, pod("b")) })
	if !failed {
		t.Error("another image is not seen")
	}
	must(t, said, "\n- ", "image: a", "\n+ ", "image: b")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	must(t, string(text), "apiVersion: v1\nkind: Pod", "creationTimestamp: TIME", "name: web-GENERATED", "uid: UID", "podIP: ADDRESS")
	if said, _ := try(t, func(inner testing.TB) { millracetest.Golden(inner, file+".none") }); !strings.Contains(said, "MILLRACE_GOLDEN=update") {
		t.Errorf("without a file it says %s", said)
	}
}

// lingers runs until the channel is closed.
func lingers(until <-chan struct{}) { <-until }

func TestGoroutinesThatOutliveATestAreTold(t *testing.T) {
	until := make(chan struct{})
	said, failed := try(t, func(inner testing.TB) {
		millracetest.NoLeaks(inner)
		go func() { go lingers(until) }()
	})
	close(until)
	if !failed {
		t.Fatal("it was not told")
	}
	must(t, said, "goroutines of the test are still running:\n1 at\n", "millracetest_test.lingers")
}

func TestAClusterLeavesNoGoroutines(t *testing.T) {
	for i := range 4 {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			millracetest.NoLeaks(t)
			kube := millracetest.Clientset(t, millracetest.Start(t, millrace.Options{}))
			create(t, kube, configMap("c", nil))
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			w, err := kube.CoreV1().ConfigMaps("default").Watch(ctx, metav1.ListOptions{})
			if err != nil {
				t.Fatal(err)
			}
			<-w.ResultChan()
			w.Stop()
		})
	}
}
