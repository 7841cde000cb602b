package source

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

const manifest = `apiVersion: v1
kind: Pod
metadata:
  name: NAME
spec:
  containers:
  - name: main
    image: localhost/box:1
    readinessProbe: {httpGet: {port: 80}}
`

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func named(name string) string { return strings.Replace(manifest, "NAME", name, 1) }

func namesOf(pods []*corev1.Pod) string {
	var all []string
	for _, p := range pods {
		all = append(all, p.Name)
	}
	return strings.Join(all, " ")
}

// reading returns a directory, and a function that makes a Files read it.
func reading(t *testing.T) (directory string, read func() []*corev1.Pod) {
	directory = t.TempDir()
	var last []*corev1.Pod
	pushed := false
	f := NewFiles(FileOptions{Path: directory, Node: "n1"}, func(pods []*corev1.Pod) { last, pushed = pods, true })
	return directory, func() []*corev1.Pod {
		pushed = false
		f.read()
		if !pushed {
			t.Error("nothing was handed on")
		}
		return last
	}
}

func TestManifestsBecomePodsOfTheNode(t *testing.T) {
	directory, read := reading(t)
	write(t, filepath.Join(directory, "a.yaml"), named("web")+"---\n"+named("second"))
	write(t, filepath.Join(directory, ".hidden"), "nonsense: [")
	pods := read()
	if namesOf(pods) != "web-n1 second-n1" {
		t.Fatalf("the pods are %s", namesOf(pods))
	}
	p := pods[0]
	probe := p.Spec.Containers[0].ReadinessProbe
	switch {
	case p.Namespace != "default", p.UID == "", p.Spec.NodeName != "n1", p.Annotations[sourceAnnotation] != "file", p.Annotations[hashAnnotation] == "":
		t.Errorf("the pod is %+v", p.ObjectMeta)
	case p.Spec.RestartPolicy != corev1.RestartPolicyAlways, *p.Spec.TerminationGracePeriodSeconds != 30, p.Status.QOSClass != corev1.PodQOSBestEffort:
		t.Errorf("the defaults are missing: %+v", p.Spec)
	case probe.PeriodSeconds != 10, probe.FailureThreshold != 3, probe.HTTPGet.Path != "/":
		t.Errorf("the probe's defaults are missing: %+v", probe)
	}
	if again := read(); again[0].UID != p.UID {
		t.Error("the same manifest became another pod")
	}
	write(t, filepath.Join(directory, "a.yaml"), strings.Replace(named("web"), "box:1", "box:2", 1))
	if changed := read(); changed[0].UID == p.UID {
		t.Error("another manifest became the same pod")
	}
}

func TestInvalidManifestsKeepTheirPods(t *testing.T) {
	directory, read := reading(t)
	write(t, filepath.Join(directory, "a.yaml"), named("good"))
	write(t, filepath.Join(directory, "b.yaml"), named("also"))
	read()
	for _, broken := range []string{"", "kind: [", named("also")[:60], "apiVersion: v1\nkind: Service\n", strings.Replace(named("also"), "image: localhost/box:1", "", 1)} {
		write(t, filepath.Join(directory, "b.yaml"), broken)
		if got := namesOf(read()); got != "good-n1 also-n1" {
			t.Errorf("with %q the pods are %q: one that runs was lost", broken, got)
		}
	}
	if err := os.Remove(filepath.Join(directory, "b.yaml")); err != nil {
		t.Fatal(err)
	}
	if got := namesOf(read()); got != "good-n1" {
		t.Errorf("without the file the pods are %q", got)
	}
}

func TestADirectoryIsWatched(t *testing.T) {
	directory := t.TempDir()
	sets := make(chan string, 16)
	f := NewFiles(FileOptions{Path: directory, Node: "n1", Every: time.Hour}, func(pods []*corev1.Pod) { sets <- namesOf(pods) })
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	ended := make(chan error, 1)
	go func() { ended <- f.Run(ctx) }()
	if first := <-sets; first != "" {
		t.Errorf("an empty directory has %q", first)
	}
	write(t, filepath.Join(directory, "a.yaml"), named("web"))
	for set := range sets {
		if set == "web-n1" {
			break
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestAURLThatFailsKeepsItsPods(t *testing.T) {
	answer, status := named("remote"), http.StatusOK
	var header string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		header = r.Header.Get("X-Token")
		w.WriteHeader(status)
		_, _ = w.Write([]byte(answer))
	}))
	defer s.Close()
	var sets []string
	u := NewURL(URLOptions{URL: s.URL, Node: "n1", Header: http.Header{"X-Token": {"secret"}}}, func(pods []*corev1.Pod) { sets = append(sets, namesOf(pods)) })
	if err := u.ask(t.Context()); err != nil || header != "secret" {
		t.Fatalf("asked with %q: %v", header, err)
	}
	for _, bad := range []struct {
		text   string
		status int
	}{{"gone", http.StatusNotFound}, {"", http.StatusOK}, {"kind: [", http.StatusOK}} {
		answer, status = bad.text, bad.status
		if err := u.ask(t.Context()); err == nil {
			t.Errorf("%q with %d is no error", bad.text, bad.status)
		}
	}
	if len(sets) != 1 || sets[0] != "remote-n1" {
		t.Errorf("the sets were %q", sets)
	}
}
