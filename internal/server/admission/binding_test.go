package admission_test

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/millrace/millrace/internal/server/admission"
	"github.com/millrace/millrace/internal/server/registry"
)

func TestABindingGetsTheTopologyOfItsNode(t *testing.T) {
	w := newServer(t, admission.Options{})
	node := &corev1.Node{ObjectMeta: meta("here")}
	node.Labels = map[string]string{corev1.LabelTopologyZone: "z", "other": "label"}
	w.create("nodes", node)
	b := &corev1.Binding{Target: corev1.ObjectReference{Kind: "Node", Name: "here"}}
	err := w.Admit(context.Background(), &registry.Change{
		Operation: registry.Create, Kind: w.Of("pods").Kind(), View: "binding", Namespace: "n", Name: "p",
		Body: b, BodyKind: corev1.SchemeGroupVersion.WithKind("Binding"),
	})
	if err != nil || len(b.Labels) != 1 || b.Labels[corev1.LabelTopologyZone] != "z" {
		t.Errorf("the binding has the labels %v: %v", b.Labels, err)
	}
}
