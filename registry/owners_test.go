package registry

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestAnOwnerNamedTwiceIsKeptOnce(t *testing.T) {
	owner := metav1.OwnerReference{APIVersion: "v1", Kind: "K", Name: "n", UID: "u"}
	other := owner
	other.Name = "m"
	o := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{OwnerReferences: []metav1.OwnerReference{owner, other, owner, owner}}}
	var said []string
	oneOwnerEach(o, WriteOptions{Warn: func(w string) { said = append(said, w) }})
	if len(o.OwnerReferences) != 2 {
		t.Errorf("kept %v", o.OwnerReferences)
	}
	if len(said) != 1 || !strings.HasSuffix(said[0], "observed: u, u") {
		t.Errorf("said %q", said)
	}
}
