package millrace_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace/millrace"
)

func TestAClusterWithAJournalKeepsItsObjects(t *testing.T) {
	o := millrace.Options{Data: t.TempDir(), Journal: true, Controllers: []string{}, NoScheduler: true}
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
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	o.Journal = false
	if _, err := millrace.Start(t.Context(), o); err == nil || !strings.Contains(err.Error(), "are in a journal, in "+o.Data) {
		t.Errorf("a start with an embedded etcd has the error %v", err)
	}
}
