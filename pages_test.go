package millrace_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/millracetest"
)

func TestTheServerListsItsChecksAndPages(t *testing.T) {
	c := millracetest.Start(t, millrace.Options{Serving: millrace.ServingOptions{Flags: map[string]string{"v": "2", "bind-address": "::"}}})
	kube := millracetest.Clientset(t, c)
	read := func(path string) string {
		t.Helper()
		b, err := kube.CoreV1().RESTClient().Get().AbsPath(path).DoRaw(t.Context())
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		return string(b)
	}
	var root struct{ Paths []string }
	if err := json.Unmarshal([]byte(read("/")), &root); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{
		"/apis/", "/flagz", "/statusz", "/healthz/ping", "/healthz/etcd", "/healthz/poststarthook/rbac/bootstrap-roles", "/livez/etcd",
		"/readyz/etcd-readiness", "/openapi/v3/",
	} {
		if !slices.Contains(root.Paths, path) {
			t.Errorf("%s is not listed", path)
		}
	}
	for _, path := range []string{"/livez/watch-cache", "/livez/etcd-readiness", "/healthz/etcd-readiness"} {
		if slices.Contains(root.Paths, path) {
			t.Errorf("%s is listed, and answers with 404", path)
		}
	}
	for _, path := range root.Paths {
		if strings.HasPrefix(path, "/healthz") || strings.HasPrefix(path, "/livez") || strings.HasPrefix(path, "/readyz") {
			read(path)
		}
	}
	if text := read("/flagz"); !strings.Contains(text, "bind-address= ::\nv= 2\n") {
		t.Errorf("the flags are %q", text)
	}
	if text := read("/statusz"); !strings.Contains(text, "Emulation version= 1.37\n") || !strings.Contains(text, "/flagz /healthz /livez") {
		t.Errorf("the status is %q", text)
	}
	nobody := rest.AnonymousClientConfig(c.Config())
	stranger, err := kubernetes.NewForConfig(nobody)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stranger.CoreV1().RESTClient().Get().AbsPath("/flagz").DoRaw(t.Context()); !apierrors.IsForbidden(err) && !apierrors.IsUnauthorized(err) {
		t.Errorf("somebody unknown reads the flags: %v", err)
	}
}
