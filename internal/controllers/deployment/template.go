package deployment

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"maps"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/rand"
)

// sameTemplate reports whether two templates make equal pods. The label pod-template-hash is ignored.
func sameTemplate(a, b *corev1.PodTemplateSpec) bool {
	if a.Labels[hashLabel] == b.Labels[hashLabel] {
		return apiequality.Semantic.DeepEqual(a, b)
	}
	return apiequality.Semantic.DeepEqual(withoutHash(a), withoutHash(b))
}

// withoutHash returns a copy that shares everything with the template except the map of labels.
func withoutHash(t *corev1.PodTemplateSpec) *corev1.PodTemplateSpec {
	out := *t
	out.Labels = maps.Clone(t.Labels)
	delete(out.Labels, hashLabel)
	return &out
}

// templateHash returns the name suffix for a template's ReplicaSet. It is computed from the JSON form, which does not
// depend on the layout of Go types, so later versions of this program find the same name. The collision count changes
// the name if another template has it.
func templateHash(t *corev1.PodTemplateSpec, collisions *int32) string {
	h := fnv.New32a()
	if err := json.NewEncoder(h).Encode(withoutHash(t)); err != nil {
		panic(fmt.Sprintf("a pod template has no JSON form: %v", err))
	}
	if collisions != nil {
		h.Write([]byte(strconv.Itoa(int(*collisions))))
	}
	return rand.SafeEncodeString(strconv.FormatUint(uint64(h.Sum32()), 10))
}

// newSet returns the ReplicaSet for the Deployment's template, without a size.
func newSet(d *appsv1.Deployment) *appsv1.ReplicaSet {
	hash := templateHash(&d.Spec.Template, d.Status.CollisionCount)
	template := *d.Spec.Template.DeepCopy()
	template.Labels = withHash(template.Labels, hash)
	selector := d.Spec.Selector.DeepCopy()
	selector.MatchLabels = withHash(selector.MatchLabels, hash)
	set := &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{
			Name:            d.Name + "-" + hash,
			Namespace:       d.Namespace,
			Labels:          template.Labels,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(d, kind)},
		},
		Spec: appsv1.ReplicaSetSpec{
			Replicas:        new(int32),
			MinReadySeconds: d.Spec.MinReadySeconds,
			Selector:        selector,
			Template:        template,
		},
	}
	copyAnnotations(d, set)
	return set
}

func withHash(labels map[string]string, hash string) map[string]string {
	out := make(map[string]string, len(labels)+1)
	maps.Copy(out, labels)
	out[hashLabel] = hash
	return out
}
