package millrace_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/server/store"
	"github.com/millrace/millrace/internal/server/store/etcd/etcdtest"
	"github.com/millrace/millrace/internal/server/store/journal"
)

func TestAClusterKeepsItsObjects(t *testing.T) {
	o := millrace.Options{Data: t.TempDir(), Controllers: []string{}, NoScheduler: true}
	c := start(t, o)
	made, err := clientset(t, c).CoreV1().ConfigMaps("default").Create(t.Context(),
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "kept"}, Data: map[string]string{"k": "v"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	c = start(t, o)
	got, err := clientset(t, c).CoreV1().ConfigMaps("default").Get(t.Context(), "kept", metav1.GetOptions{})
	if err != nil || got.ResourceVersion != made.ResourceVersion || got.Data["k"] != "v" {
		t.Errorf("after another start there is %v, %v", got, err)
	}
}

// An earlier version kept its objects in an embedded etcd.
func TestTheObjectsOfAnEmbeddedEtcdAreTakenOverOnce(t *testing.T) {
	o := millrace.Options{Data: t.TempDir(), Controllers: []string{}, NoScheduler: true}
	database := filepath.Join(o.Data, "etcd")
	revision := fillDatabase(t, database)
	for _, state := range []string{"a database", "a log", "a database that was not moved away after it was taken over"} {
		c := start(t, o)
		maps := clientset(t, c).CoreV1().ConfigMaps("default")
		got, err := maps.Get(t.Context(), "kept", metav1.GetOptions{})
		if err != nil || got.ResourceVersion != revision.String() || got.Data["k"] != "v" {
			t.Errorf("%s: there is %v, %v, and it was written at revision %v", state, got, err, revision)
		}
		if _, err := maps.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "new-"}}, metav1.CreateOptions{}); err != nil {
			t.Errorf("%s: %v", state, err)
		}
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
		if state == "a log" {
			if err := os.Rename(database+".taken-over", database); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := os.Rename(database+".taken-over", database); err != nil {
		t.Fatal(err)
	}
	e := etcdtest.Start(t, etcdtest.Options{Dir: database})
	for i := range 100 {
		if _, err := e.Do(t.Context(), etcdtest.Put(fmt.Sprint("/registry/later/", i), "")); err != nil {
			t.Fatal(err)
		}
	}
	e.Stop()
	if _, err := millrace.Start(t.Context(), o); err == nil || !strings.Contains(err.Error(), "it was written to after the log") {
		t.Errorf("a database with changes that the log lacks: %v", err)
	}
	if err := os.Rename(database, database+".taken-over"); err != nil {
		t.Fatal(err)
	}
	fillDatabase(t, database)
	if _, err := millrace.Start(t.Context(), o); err == nil || !strings.Contains(err.Error(), "there are others in "+database) {
		t.Errorf("another database: %v", err)
	}
}

// fillDatabase makes an etcd with the objects of a cluster, and returns the revision of one of them.
func fillDatabase(t *testing.T, dir string) store.Revision {
	t.Helper()
	o := millrace.Options{Data: t.TempDir(), Controllers: []string{}, NoScheduler: true}
	c := start(t, o)
	_, err := clientset(t, c).CoreV1().ConfigMaps("default").Create(t.Context(),
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "kept"}, Data: map[string]string{"k": "v"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	from, err := journal.Open(journal.Options{Dir: filepath.Join(o.Data, "journal")})
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	to := etcdtest.Start(t, etcdtest.Options{Dir: dir})
	defer to.Stop()
	all, err := from.List(t.Context(), "/", store.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var kept store.Revision
	for _, e := range all.Entries {
		rev, err := to.Do(t.Context(), etcdtest.Put(e.Key, string(e.Value)))
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(e.Key, "/kept") {
			kept = store.Revision(rev)
		}
	}
	return kept
}
