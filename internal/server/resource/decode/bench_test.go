package decode_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	strictjson "sigs.k8s.io/json"

	"github.com/millrace/millrace/internal/server/resource/decode"
)

// pod returns a pod of about 6 KB.
func pod(b *testing.B) []byte {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Labels: map[string]string{"app": "web", "tier": "front"},
		Annotations: map[string]string{"note": strings.Repeat("n", 300)}}}
	for i := range 3 {
		c := corev1.Container{Name: fmt.Sprintf("c%d", i), Image: "registry.example/app:1", Command: []string{"/app", "--serve"}}
		for j := range 12 {
			c.Env = append(c.Env, corev1.EnvVar{Name: fmt.Sprintf("VARIABLE_%d", j), Value: strings.Repeat("some value of it ", 4)})
		}
		p.Spec.Containers = append(p.Spec.Containers, c)
	}
	text, err := json.Marshal(p)
	if err != nil {
		b.Fatal(err)
	}
	return text
}

func BenchmarkPod(b *testing.B) {
	text := pod(b)
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		if !decode.JSON(text, &corev1.Pod{}) {
			b.Fatal("refused")
		}
	}
}

func BenchmarkPodByTheLibrary(b *testing.B) {
	text := pod(b)
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := strictjson.UnmarshalStrict(text, &corev1.Pod{}); err != nil {
			b.Fatal(err)
		}
	}
}
