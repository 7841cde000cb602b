package hollow

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestALogThatNobodyWroteTellsWhatARealNodeWouldRun(t *testing.T) {
	pod := func(annotations map[string]string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: annotations}, Spec: corev1.PodSpec{
			InitContainers: []corev1.Container{{Name: "init", Image: "example.com/init"}},
			Containers:     []corev1.Container{{Name: "web", Image: "example.com/web:1", Command: []string{"/web"}, Args: []string{"-v", "a b"}}},
		}}
	}
	const hint = " The annotation hollow.millrace.dev/log has lines to print.\n"
	for name, is := range map[string]struct {
		annotations     map[string]string
		container, want string
	}{
		"with a command":           {nil, "web", `Pretended by a hollow node: a real one would run ["/web" "-v" "a b"] of the image example.com/web:1.` + hint},
		"without one":              {nil, "init", "Pretended by a hollow node: a real one would run the image example.com/init." + hint},
		"empty on purpose":         {map[string]string{Prefix + "log": ""}, "web", ""},
		"empty for one container":  {map[string]string{Prefix + "log.web": ""}, "web", ""},
		"that is not of this name": {nil, "other", ""},
	} {
		if got := unscripted(pod(is.annotations), is.container); got != is.want {
			t.Errorf("a log %s: %q, want %q", name, got, is.want)
		}
	}
}
