package millrace_test

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/millracetest"
)

// shownMetric is a metric in the text format of Prometheus.
type shownMetric struct {
	kind           string
	labels, bounds map[string]bool
}

var (
	typeLine   = regexp.MustCompile(`(?m)^# TYPE (\w+) (\w+)$`)
	sampleLine = regexp.MustCompile(`(?m)^(\w+)(?:\{(.*)\})? `)
	oneLabel   = regexp.MustCompile(`(\w+)="((?:[^"\\]|\\.)*)"`)
)

func shownMetrics(text string) map[string]*shownMetric {
	all := map[string]*shownMetric{}
	for _, m := range typeLine.FindAllStringSubmatch(text, -1) {
		all[m[1]] = &shownMetric{kind: m[2], labels: map[string]bool{}, bounds: map[string]bool{}}
	}
	for _, m := range sampleLine.FindAllStringSubmatch(text, -1) {
		of := all[m[1]]
		for _, part := range []string{"_bucket", "_sum", "_count"} {
			if base := strings.TrimSuffix(m[1], part); of == nil && base != m[1] {
				of = all[base]
			}
		}
		if of == nil {
			continue
		}
		for _, l := range oneLabel.FindAllStringSubmatch(m[2], -1) {
			switch {
			case l[1] == "le" && l[2] != "+Inf":
				of.bounds[l[2]] = true
			case l[1] != "le" && l[1] != "quantile":
				of.labels[l[1]] = true
			}
		}
	}
	return all
}

// use has the server do something of everything that shows only then.
func use(t *testing.T, kube *kubernetes.Clientset) {
	t.Helper()
	ctx := t.Context()
	for range 2 {
		if _, err := kube.CoreV1().Endpoints("").List(ctx, metav1.ListOptions{}); err != nil { //nolint:staticcheck // the deprecated one is wanted
			t.Fatal(err)
		}
	}
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "s"}, Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeNodePort, Ports: []corev1.ServicePort{{Port: 80}}}}
	if _, err := kube.CoreV1().Services("default").Create(ctx, service, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	none := int64(0)
	if _, err := kube.CoreV1().Pods("default").List(ctx, metav1.ListOptions{TimeoutSeconds: &none}); err != nil {
		t.Fatal(err)
	}
	w, err := kube.CoreV1().Namespaces().Watch(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	<-w.ResultChan()
	w.Stop()
}

// onlyWhen are metrics that show when something goes wrong, or when somebody has set something up.
var onlyWhen = map[string]string{
	"apiserver_request_terminations_total":                         "a request is ended",
	"apiserver_admission_webhook_admission_duration_seconds":       "there is a webhook",
	"apiserver_admission_webhook_request_total":                    "there is a webhook",
	"apiserver_admission_webhook_fail_open_count":                  "a webhook fails",
	"apiserver_storage_transformation_operations_total":            "something is encrypted",
	"apiserver_flowcontrol_request_wait_duration_seconds":          "a request was served by fairness",
	"apiserver_storage_envelope_transformation_cache_misses_total": "something is encrypted",
}

func TestMetricsHaveTheNamesLabelsAndBoundsOfKubeAPIServer(t *testing.T) {
	recorded, err := os.ReadFile("testdata/kube-apiserver-metrics.txt")
	if err != nil {
		t.Fatal(err)
	}
	kube := millracetest.Clientset(t, millracetest.Start(t, millrace.Options{Listen: "127.0.0.1:0"}))
	use(t, kube)
	text, err := kube.CoreV1().RESTClient().Get().AbsPath("/metrics").Timeout(time.Minute).DoRaw(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ours, absent := shownMetrics(string(text)), false
	for line := range strings.Lines(string(recorded)) {
		absent = absent || strings.HasPrefix(line, "# absent: ")
		words := strings.Fields(line)
		if len(words) < 3 || words[0] == "#" {
			continue
		}
		name, got := words[0], ours[words[0]]
		switch {
		case absent && got != nil:
			t.Errorf("%s is there, and is recorded as absent", name)
		case absent, got == nil && onlyWhen[name] != "":
		case got == nil:
			t.Errorf("%s is absent, and no reason is recorded", name)
		default:
			got.compare(t, name, words[1:])
		}
	}
}

func (m *shownMetric) compare(t *testing.T, name string, recorded []string) {
	t.Helper()
	if m.kind != recorded[0] {
		t.Errorf("%s is a %s, not a %s", name, m.kind, recorded[0])
	}
	if labels := strings.Join(slices.Sorted(maps.Keys(m.labels)), ","); labels != strings.Trim(recorded[1], "-") && !strings.HasPrefix(name, "workqueue") {
		t.Errorf("%s has the labels %q, not %q", name, labels, recorded[1])
	}
	if len(recorded) < 3 {
		return
	}
	for bound := range strings.SplitSeq(recorded[2], ",") {
		if !m.bounds[bound] {
			t.Errorf("%s has no bucket up to %s", name, bound)
		}
	}
}
