package etcd_test

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/millracetest"
)

// lines is a log that may be written by several goroutines.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *lines) contain(what string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Contains(l.text.String(), what)
}

func must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// eventually tries until there is no error.
func eventually[T any](t testing.TB, what string, f func() (T, error)) T {
	t.Helper()
	for began := time.Now(); ; time.Sleep(again) {
		v, err := f()
		if err == nil {
			return v
		}
		if time.Since(began) > time.Minute {
			t.Fatalf("%s: %v", what, err)
		}
	}
}

// expires waits until a watch ends with 410.
func expires(t testing.TB, w watch.Interface) {
	t.Helper()
	for e := range w.ResultChan() {
		if s, ok := e.Object.(*metav1.Status); ok {
			if s.Code != 410 {
				t.Errorf("the watch ended with %v", s)
			}
			return
		}
	}
	t.Error("the watch ended without a word")
}

// as returns a client for a user.
func as(t testing.TB, c *rest.Config, user string) *kubernetes.Clientset {
	t.Helper()
	c = rest.CopyConfig(c)
	c.Impersonate.UserName = user
	return must(kubernetes.NewForConfig(c))(t)
}

// TestAnEtcdThatWasRestoredIsReadAgain restores an etcd from a backup while a server uses it: its revision is lower
// than before, and it does not refuse a watch from a revision that it has not reached.
func TestAnEtcdThatWasRestoredIsReadAgain(t *testing.T) {
	e := startEtcdCluster(t, 1)
	log := &lines{}
	o := e.options()
	o.Logger = slog.New(slog.NewTextHandler(log, nil))
	c := millracetest.Start(t, o)
	maps := newMaps(t, c.Config())
	must(maps.Create(t.Context(), configMapNamed("kept"), metav1.CreateOptions{}))(t)

	e.stop(0)
	if err := os.CopyFS(e.file("backup"), os.DirFS(e.file("member0"))); err != nil {
		t.Fatal(err)
	}
	e.start(0)
	last := eventually(t, "a write after the backup", func() (*corev1.ConfigMap, error) {
		made, err := maps.Create(t.Context(), configMapNamed("lost"), metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) { // an attempt was written, and its answer was lost
			return maps.Get(t.Context(), "lost", metav1.GetOptions{})
		}
		return made, err
	})
	for range 20 {
		last.Data = map[string]string{"at": last.ResourceVersion}
		last = must(maps.Update(t.Context(), last, metav1.UpdateOptions{}))(t)
	}
	roles := must(kubernetes.NewForConfig(c.Config()))(t).RbacV1()
	allow := func(name string) error {
		_, err := roles.ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: name}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
			Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: name}}}, metav1.CreateOptions{})
		return err
	}
	if err := allow("alice"); err != nil {
		t.Fatal(err)
	}
	if _, err := as(t, c.Config(), "alice").CoreV1().ConfigMaps("default").Get(t.Context(), "lost", metav1.GetOptions{}); err != nil {
		t.Fatal(err)
	}
	idle := must(maps.Watch(t.Context(), metav1.ListOptions{ResourceVersion: last.ResourceVersion}))(t)
	defer idle.Stop()

	e.stop(0)
	if err := os.RemoveAll(e.file("member0")); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(e.file("backup"), e.file("member0")); err != nil {
		t.Fatal(err)
	}
	e.start(0)
	expires(t, idle) // nobody asks for anything meanwhile
	if _, err := maps.Get(t.Context(), "lost", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("what was written after the backup: %v", err)
	}
	if _, err := maps.Get(t.Context(), "kept", metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
	if _, err := as(t, c.Config(), "alice").CoreV1().ConfigMaps("default").Get(t.Context(), "kept", metav1.GetOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("a permission that was given after the backup: %v", err)
	}
	expires(t, must(maps.Watch(t.Context(), metav1.ListOptions{ResourceVersion: last.ResourceVersion}))(t))
	if !log.contain("the store is at an older revision than before") {
		t.Error("the log does not say it")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	list := must(maps.List(ctx, metav1.ListOptions{}))(t)
	w := must(maps.Watch(ctx, metav1.ListOptions{ResourceVersion: list.ResourceVersion}))(t)
	defer w.Stop()
	must(maps.Create(ctx, configMapNamed("lost"), metav1.CreateOptions{}))(t)
	if got := <-w.ResultChan(); got.Type != watch.Added {
		t.Errorf("after the restore a watch shows %v", got)
	}
	if err := allow("bob"); err != nil {
		t.Fatal(err)
	}
	if _, err := as(t, c.Config(), "bob").CoreV1().ConfigMaps("default").Get(ctx, "lost", metav1.GetOptions{}); err != nil {
		t.Errorf("a permission that was given after the restore: %v", err)
	}
}

// A client outlives the cluster, whose directory is restored while it is stopped.
func TestAClientOfARestoredDirectoryListsAgain(t *testing.T) {
	data := t.TempDir() + "/data"
	o := millrace.Options{Data: data, Controllers: []string{}, NoScheduler: true}
	begin := func() *millrace.Cluster { return must(millrace.Start(t.Context(), o))(t) }
	c := begin()
	must(newMaps(t, c.Config()).Create(t.Context(), configMapNamed("kept"), metav1.CreateOptions{}))(t)
	must("", c.Close())(t)
	if err := os.CopyFS(data+".backup", os.DirFS(data)); err != nil {
		t.Fatal(err)
	}
	c = begin()
	last := must(newMaps(t, c.Config()).Create(t.Context(), configMapNamed("lost"), metav1.CreateOptions{}))(t)
	for range 100 {
		last.Data = map[string]string{"at": last.ResourceVersion}
		last = must(newMaps(t, c.Config()).Update(t.Context(), last, metav1.UpdateOptions{}))(t)
	}
	must("", c.Close())(t)
	must("", os.RemoveAll(data))(t)
	must("", os.Rename(data+".backup", data))(t)
	c = begin()
	defer c.Close()
	expires(t, must(newMaps(t, c.Config()).Watch(t.Context(), metav1.ListOptions{ResourceVersion: last.ResourceVersion}))(t))
}
