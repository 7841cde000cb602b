package main

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/cmd/millrace/internal/client"
	"github.com/millrace/millrace/cmd/millrace/internal/ports"
	"github.com/millrace/millrace/internal/controllers"
	loopmetrics "github.com/millrace/millrace/internal/controllers/prommetrics"
	schedulermetrics "github.com/millrace/millrace/internal/scheduler/prommetrics"
	"github.com/millrace/millrace/loop"
	requestmetrics "github.com/millrace/millrace/loop/prommetrics"
	"github.com/millrace/millrace/millracetest"
)

// recordedMetric is a metric of one of Kubernetes' programs.
type recordedMetric struct {
	kind    string
	labels  []string
	buckets []float64
	absent  bool // Millrace does not have it, for a reason in the file
}

// recordedMetrics reads the metrics of one of Kubernetes' programs.
func recordedMetrics(t *testing.T, program string) map[string]recordedMetric {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "metrics", program+".txt"))
	if err != nil {
		t.Fatal(err)
	}
	all, absent := map[string]recordedMetric{}, false
	for line := range strings.SplitSeq(string(text), "\n") {
		if strings.HasPrefix(line, "# absent: ") {
			absent = true
		}
		words := strings.Fields(line)
		if len(words) < 3 || words[0] == "#" {
			continue
		}
		m := recordedMetric{kind: words[1], absent: absent}
		if words[2] != "-" {
			m.labels = strings.Split(words[2], ",")
		}
		if len(words) > 3 {
			for b := range strings.SplitSeq(words[3], ",") {
				m.buckets = append(m.buckets, number(t, b))
			}
		}
		all[words[0]] = m
	}
	return all
}

func number(t *testing.T, text string) float64 {
	t.Helper()
	n, err := strconv.ParseFloat(text, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

var (
	descName   = regexp.MustCompile(`fqName: "([^"]*)"`)
	descLabels = regexp.MustCompile(`constLabels: \{([^}]*)\}, variableLabels: \{([^}]*)\}`)
	labelName  = regexp.MustCompile(`[a-zA-Z_][a-zA-Z0-9_]*`)
	quoted     = regexp.MustCompile(`"[^"]*"`)
)

// describedMetrics returns the labels of all metrics of a registry, by name.
func describedMetrics(r *prometheus.Registry) map[string][]string {
	descs := make(chan *prometheus.Desc)
	go func() {
		defer close(descs)
		r.Describe(descs)
	}()
	all := map[string][]string{}
	for d := range descs {
		labels := descLabels.FindStringSubmatch(d.String())
		names := labelName.FindAllString(quoted.ReplaceAllString(labels[1], "")+" "+labels[2], -1)
		slices.Sort(names)
		all[descName.FindStringSubmatch(d.String())[1]] = names
	}
	return all
}

// compareMetrics compares the names and labels of a registry with the recorded ones.
func compareMetrics(t *testing.T, program string, r *prometheus.Registry) {
	t.Helper()
	ours, recorded := describedMetrics(r), recordedMetrics(t, program)
	if len(recorded) == 0 {
		t.Fatalf("no metric of %s is recorded", program)
	}
	for _, name := range slices.Sorted(maps.Keys(recorded)) {
		want := recorded[name]
		got, there := ours[name]
		switch {
		case there && want.absent:
			t.Errorf("%s: %s is there, and is recorded as absent", program, name)
		case !there && !want.absent:
			t.Errorf("%s: %s is absent, and no reason is recorded", program, name)
		case there && !slices.Equal(got, want.labels):
			t.Errorf("%s: %s has the labels %v, want %v", program, name, got, want.labels)
		}
	}
}

// processMetrics returns the metrics that each program has that elects a leader.
func processMetrics(t *testing.T) *prometheus.Registry {
	t.Helper()
	r := prometheus.NewRegistry()
	if _, err := requestmetrics.NewRequests(r); err != nil {
		t.Fatal(err)
	}
	if _, err := ports.NewTelling(r, loop.ClientsFor(fake.NewClientset()), nil); err != nil {
		t.Fatal(err)
	}
	if _, err := client.Measured(&loop.Election{Lease: loop.Key{Name: "lease"}}, r); err != nil {
		t.Fatal(err)
	}
	return r
}

func TestControllersHaveTheMetricsOfKubernetes(t *testing.T) {
	r := processMetrics(t)
	if err := loopmetrics.Measure(&controllers.Options{}, r); err != nil {
		t.Fatal(err)
	}
	if _, err := loopmetrics.Runs(r, controllers.Program); err != nil {
		t.Fatal(err)
	}
	compareMetrics(t, "kube-controller-manager", r)
}

func TestTheSchedulerHasTheMetricsOfKubernetes(t *testing.T) {
	r := processMetrics(t)
	if _, err := schedulermetrics.New(r); err != nil {
		t.Fatal(err)
	}
	compareMetrics(t, "kube-scheduler", r)
}

// family is what a page of metrics says about one of them.
type family struct {
	kind    string
	labels  map[string]bool
	buckets []float64
	sum     float64 // of all its values
}

var sample = regexp.MustCompile(`^([a-zA-Z_:0-9]+)(?:\{(.*)\})? (\S+)$`)

// families reads a page of metrics.
func families(t *testing.T, page string) map[string]*family {
	t.Helper()
	all := map[string]*family{}
	for line := range strings.SplitSeq(page, "\n") {
		if words := strings.Fields(line); strings.HasPrefix(line, "# TYPE ") {
			all[words[2]] = &family{kind: words[3], labels: map[string]bool{}}
			continue
		}
		m := sample.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		name := m[1]
		for _, suffix := range []string{"_bucket", "_sum", "_count"} {
			if base := strings.TrimSuffix(m[1], suffix); all[base] != nil {
				name = base
			}
		}
		f := all[name]
		f.sum += number(t, m[3])
		for pair := range strings.SplitSeq(quoted.ReplaceAllStringFunc(m[2], func(s string) string { return strings.ReplaceAll(s, ",", " ") }), ",") {
			label, value, ok := strings.Cut(pair, "=")
			if label != "le" && ok {
				f.labels[label] = true
			}
			if b := strings.Trim(value, `"`); label == "le" && b != "+Inf" && !slices.Contains(f.buckets, number(t, b)) {
				f.buckets = append(f.buckets, number(t, b))
			}
		}
	}
	return all
}

func TestAWholeClusterHasTheMetricsOfKubernetesWithTheirTypesAndBuckets(t *testing.T) {
	cluster := millracetest.Start(t, millrace.Options{Listen: "none", Nodes: 2})
	kube, err := kubernetes.NewForConfig(cluster.InProcess())
	if err != nil {
		t.Fatal(err)
	}
	work(t, kube)
	// What must have been counted by then, and not only be there.
	counted := []string{
		"endpoint_slice_controller_changes", "endpoint_slice_controller_endpoints_desired", "job_controller_jobs_finished_total",
		"job_controller_job_pods_creation_total", "job_controller_job_syncs_total", "node_collector_zone_size",
		"root_ca_cert_publisher_sync_total", "running_managed_controllers", "rest_client_requests_total", "rest_client_request_duration_seconds",
		"scheduler_queue_incoming_pods_total", "scheduler_framework_extension_point_duration_seconds", "scheduler_plugin_execution_duration_seconds",
		"scheduler_plugin_evaluation_total", "scheduler_event_handling_duration_seconds", "scheduler_schedule_attempts_total", "workqueue_adds_total",
	}
	var problems []string
	for end := time.Now().Add(time.Minute); ; time.Sleep(100 * time.Millisecond) {
		page, err := kube.Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		ours := families(t, string(page))
		problems = wrongFamilies(t, ours)
		for _, name := range counted {
			if ours[name] == nil || ours[name].sum == 0 {
				problems = append(problems, name+" counts nothing")
			}
		}
		if len(problems) == 0 || time.Now().After(end) {
			break
		}
	}
	for _, p := range problems {
		t.Error(p)
	}
}

// wrongFamilies returns what differs from the recorded metrics.
func wrongFamilies(t *testing.T, ours map[string]*family) (problems []string) {
	t.Helper()
	for _, program := range []string{"kube-controller-manager", "kube-scheduler"} {
		for name, want := range recordedMetrics(t, program) {
			got := ours[name]
			if got == nil {
				continue
			}
			if got.kind != want.kind {
				problems = append(problems, fmt.Sprintf("%s is a %s, want a %s", name, got.kind, want.kind))
			}
			if !slices.EqualFunc(got.buckets, want.buckets, func(a, b float64) bool { return a > 0.9999*b && a < 1.0001*b }) {
				problems = append(problems, fmt.Sprintf("%s has the buckets %v, want %v", name, got.buckets, want.buckets))
			}
			if labels := slices.Sorted(maps.Keys(got.labels)); len(labels) > 0 && !slices.Equal(labels, want.labels) {
				problems = append(problems, fmt.Sprintf("%s has the labels %v, want %v", name, labels, want.labels))
			}
		}
	}
	return problems
}

// work gives a cluster a Service with pods, and a Job.
func work(t *testing.T, kube kubernetes.Interface) {
	t.Helper()
	app := map[string]string{"app": "web"}
	pod := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: app}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "i"}}}}
	replicas := int32(12)
	_, err := kube.AppsV1().Deployments("default").Create(t.Context(), &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: appsv1.DeploymentSpec{Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: app}, Template: pod},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = kube.CoreV1().Services("default").Create(t.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: corev1.ServiceSpec{Selector: app, Ports: []corev1.ServicePort{{Port: 80}}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	once := corev1.PodTemplateSpec{Spec: corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever, Containers: pod.Spec.Containers}}
	_, err = kube.BatchV1().Jobs("default").Create(t.Context(), &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "once"}, Spec: batchv1.JobSpec{Template: once}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
}
