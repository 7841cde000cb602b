package patch

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/millrace/millrace/internal/server/resource"
	"github.com/millrace/millrace/internal/server/resource/core"
)

// BenchmarkPatch changes an annotation, or a condition, of a pod.
func BenchmarkPatch(b *testing.B) {
	var pods *resource.Kind
	for _, k := range core.Kinds() {
		if k.Kind == "Pod" {
			pods = k
		}
	}
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "n", Annotations: map[string]string{"a": "b"}}}
	for range 3 {
		c := corev1.Container{Name: "c", Image: "registry.example/app:1"}
		for range 12 {
			c.Env = append(c.Env, corev1.EnvVar{Name: "VARIABLE", Value: "some value of it"})
		}
		p.Spec.Containers = append(p.Spec.Containers, c)
	}
	face := pods.Faces[0]
	for name, text := range map[string]string{
		"annotation": `{"metadata":{"annotations":{"n":"1"}}}`,
		"condition":  `{"status":{"conditions":[{"type":"Ready","status":"True"}]}}`,
	} {
		change, err := Compile(types.StrategicMergePatchType, []byte(text), face.New)
		if err != nil {
			b.Fatal(err)
		}
		part := PartOf(pods, types.StrategicMergePatchType, []byte(text), change)
		b.Run(name+"/part", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, ok := part.Apply(p); !ok {
					b.Fatal("not a part")
				}
			}
		})
		b.Run(name+"/whole", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, _, _, err := Whole(face, types.StrategicMergePatchType, p, []byte(text), change); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
