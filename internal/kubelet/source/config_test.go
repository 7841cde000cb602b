package source

import (
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func podOf(name string, edit ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID("uid-" + name)}}
	for _, e := range edit {
		e(p)
	}
	return p
}

// heard returns a Config, and a function that returns its reports.
func heard(sources ...Name) (*Config, func() []string) {
	var all []string
	c := NewConfig(func(u Update) { all = append(all, fmt.Sprintf("%s %s %s", u.Operation, u.Source, u.Pod.Name)) }, sources...)
	return c, func() []string {
		got := all
		all = nil
		slices.Sort(got)
		return got
	}
}

func expect(t *testing.T, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("told %q, want %q", got, want)
	}
}

func TestFullSetsAreTurnedIntoChanges(t *testing.T) {
	c, told := heard(File, API)
	c.Set(API, []*corev1.Pod{podOf("a"), podOf("b")})
	expect(t, told(), "ADD api a", "ADD api b")
	c.Set(API, []*corev1.Pod{podOf("a"), podOf("b")})
	expect(t, told())
	c.Set(API, []*corev1.Pod{podOf("a", func(p *corev1.Pod) { p.Spec.NodeName = "n" }), podOf("b", func(p *corev1.Pod) { p.Status.Phase = corev1.PodRunning })})
	expect(t, told(), "RECONCILE api b", "UPDATE api a")
	c.Set(API, []*corev1.Pod{podOf("a", func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{} })})
	expect(t, told(), "DELETE api a", "REMOVE api b")
	c.Set(API, nil)
	expect(t, told(), "REMOVE api a")
}

func TestOneSourceNeverRemovesThePodsOfAnother(t *testing.T) {
	c, told := heard(File, HTTP, API)
	c.Set(File, []*corev1.Pod{podOf("f")})
	c.Set(API, []*corev1.Pod{podOf("a")})
	told()
	c.Set(HTTP, nil)
	c.Set(API, nil)
	expect(t, told(), "REMOVE api a")
	if _, ok := c.Pod(Key{Namespace: "default", Name: "f"}); !ok {
		t.Error("the file's pod is gone")
	}
}

func TestTheFirstSourceOfANameWins(t *testing.T) {
	c, told := heard(File, API)
	c.Set(File, []*corev1.Pod{podOf("x")})
	told()
	c.Set(API, []*corev1.Pod{podOf("x", func(p *corev1.Pod) { p.UID = "other" })})
	expect(t, told())
	if p, _ := c.Pod(Key{Namespace: "default", Name: "x"}); p.UID != "uid-x" {
		t.Errorf("the name went to %s", p.UID)
	}
}

// A pod's annotations are its creator's. Where it comes from is known from who has brought it.
func TestASourceIsKnownFromWhereAPodComesFrom(t *testing.T) {
	claim := func(source string) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Annotations = map[string]string{sourceAnnotation: source} }
	}
	c, _ := heard(File, HTTP, API)
	c.Set(File, []*corev1.Pod{podOf("f", claim("api"))})
	c.Set(HTTP, []*corev1.Pod{podOf("h")})
	c.Set(API, []*corev1.Pod{podOf("a", claim("file"))})
	for name, want := range map[string]Name{"f": File, "h": HTTP, "a": API, "none": ""} {
		if got, _ := c.SourceOf(podOf(name)); got != want {
			t.Errorf("the pod %s comes from %q, want %q", name, got, want)
		}
		if got := c.Static(podOf(name)); got != (want == File || want == HTTP) {
			t.Errorf("the pod %s is static: %t", name, got)
		}
	}
	if _, ok := c.SourceOf(podOf("f", func(p *corev1.Pod) { p.UID = "other" })); ok {
		t.Error("a pod that nobody wants has the source of another one of its name")
	}
}

func TestAPodWithAnotherUIDIsAnotherPod(t *testing.T) {
	c, told := heard(API)
	c.Set(API, []*corev1.Pod{podOf("x")})
	told()
	c.Set(API, []*corev1.Pod{podOf("x", func(p *corev1.Pod) { p.UID = "other" })})
	expect(t, told(), "ADD api x", "REMOVE api x")
}

func TestAConfigIsReadyOnceEverySourceHasReported(t *testing.T) {
	c, _ := heard(File, API)
	c.Set(API, nil)
	if c.Ready() {
		t.Error("ready although the file was never read")
	}
	c.Set(File, nil)
	if !c.Ready() {
		t.Error("not ready although all have been seen")
	}
}
