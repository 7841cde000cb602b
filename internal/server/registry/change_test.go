package registry

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace/millrace/internal/server/resource"
)

// another returns an admission step that replaces the object with a changed copy.
func another(change func(*corev1.ConfigMap)) Admission {
	return Admission{Name: "another", Mutate: func(_ context.Context, c *Change) error {
		if m, ok := c.Object.(*corev1.ConfigMap); ok {
			copied := m.DeepCopy()
			change(copied)
			c.Object = copied
		}
		return nil
	}}
}

func TestTheObjectThatAdmissionReplacesIsStored(t *testing.T) {
	w := newWorld(t, 0)
	w.maps.registry.Admission = []Admission{another(func(m *corev1.ConfigMap) { m.Data = map[string]string{"by": "admission"} })}
	ctx := context.Background()
	created, err := w.maps.Create(ctx, "n", &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "replaced"}}, WriteOptions{})
	if err != nil {
		t.Fatal(err)
	}
	w.maps.registry.Admission = []Admission{another(func(m *corev1.ConfigMap) { m.Data["twice"] = "yes" })}
	updated, _, err := w.maps.Update(ctx, "n", "replaced", func(_ context.Context, old resource.Object) (resource.Object, error) {
		return old.DeepCopyObject().(resource.Object), nil
	}, UpdateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	got := updated.Object.(*corev1.ConfigMap)
	if got.Data["by"] != "admission" || got.Data["twice"] != "yes" || got.UID != created.Object.GetUID() {
		t.Errorf("stored is %v with the data %v", got.ObjectMeta, got.Data)
	}
	w.maps.registry.Admission = []Admission{another(func(m *corev1.ConfigMap) { m.ResourceVersion = "1" })}
	_, _, err = w.maps.Update(ctx, "n", "replaced", func(_ context.Context, old resource.Object) (resource.Object, error) {
		return old.DeepCopyObject().(resource.Object), nil
	}, UpdateOptions{})
	if !apierrors.IsConflict(err) {
		t.Errorf("an object of another version was stored: %v", err)
	}
}

func TestAdmissionKnowsTheOptionsOfARequest(t *testing.T) {
	w := newWorld(t, 0)
	var seen []any
	w.maps.registry.Admission = []Admission{{Validate: func(_ context.Context, c *Change) error {
		seen = append(seen, c.Options())
		return nil
	}}}
	ctx, opt := context.Background(), WriteOptions{DryRun: true, Asked: Asked{FieldManager: "me", FieldValidation: "Strict"}}
	if _, err := w.maps.Create(ctx, "n", &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, opt); err != nil {
		t.Fatal(err)
	}
	if _, err := w.maps.Create(ctx, "n", &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	seconds := int64(7)
	if _, err := w.maps.Delete(ctx, "n", "a", metav1.DeleteOptions{GracePeriodSeconds: &seconds}, WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	c := seen[0].(*metav1.CreateOptions)
	if c.Kind != "CreateOptions" || c.APIVersion != "meta.k8s.io/v1" || c.FieldManager != "me" || c.FieldValidation != "Strict" || len(c.DryRun) != 1 {
		t.Errorf("a create had the options %v", c)
	}
	d := seen[len(seen)-1].(*metav1.DeleteOptions)
	if d.Kind != "DeleteOptions" || d.GracePeriodSeconds == nil || *d.GracePeriodSeconds != 7 {
		t.Errorf("a delete had the options %v", d)
	}
}
