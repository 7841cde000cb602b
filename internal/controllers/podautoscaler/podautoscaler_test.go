package podautoscaler_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace/millrace/internal/controllers/internal/looptest"
	"github.com/millrace/millrace/internal/controllers/internal/meter"
	"github.com/millrace/millrace/internal/controllers/podautoscaler"
	"github.com/millrace/millrace/millracetest"
)

// figures is a proxy in front of the API server that serves the metrics APIs.
type figures struct {
	next http.RoundTripper

	mu    sync.Mutex
	pods  map[string]string // guarded by mu: CPU usage by pod
	other map[string]string // guarded by mu: values by the path below the group version
}

func (f *figures) RoundTrip(r *http.Request) (*http.Response, error) {
	if !strings.Contains(r.URL.Path, "metrics.k8s.io/") {
		return f.next.RoundTrip(r)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	var items []string
	now := time.Now().UTC().Format(time.RFC3339)
	if strings.HasPrefix(r.URL.Path, "/apis/metrics.k8s.io/v1beta1/namespaces/a/pods") {
		for pod, cpu := range f.pods {
			items = append(items, fmt.Sprintf(`{"metadata":{"name":%q,"namespace":"a"},"timestamp":%q,"window":"15s","containers":[{"name":"main","usage":{"cpu":%q,"memory":"64Mi"}}]}`, pod, now, cpu))
		}
	}
	for path, value := range f.other {
		if strings.HasSuffix(r.URL.Path, path) {
			items = append(items, fmt.Sprintf(`{"describedObject":{"name":"x"},"timestamp":%q,"value":%q}`, now, value))
		}
	}
	body := `{"kind":"PodMetricsList","apiVersion":"metrics.k8s.io/v1beta1","metadata":{},"items":[` + strings.Join(items, ",") + `]}`
	return &http.Response{
		StatusCode: http.StatusOK, Proto: "HTTP/2.0", ProtoMajor: 2, Request: r, Header: http.Header{"Content-Type": {"application/json"}},
		Body: io.NopCloser(strings.NewReader(body)), ContentLength: int64(len(body)),
	}, nil
}

// world is a Deployment "web" whose pods the test makes, and its autoscaler.
type world struct {
	*testing.T
	*looptest.Server
	figures *figures
	metrics *prometheus.Registry
}

// measured is what is counted under names that begin with those of the loop.
func (w *world) measured(name string) float64 {
	return looptest.Measured(w.T, w.metrics)["horizontal_pod_autoscaler_controller_"+name]
}

func inWorld(t *testing.T, hpa autoscalingv2.HorizontalPodAutoscalerSpec, f func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		config := millracetest.API(t)
		w := &world{T: t, metrics: prometheus.NewRegistry(), figures: &figures{next: config.Transport, pods: map[string]string{}, other: map[string]string{}}}
		config.Transport = w.figures
		w.Server = looptest.New(t, config)
		looptest.Namespace(w.Server, "a")
		one, match := int32(1), map[string]string{"app": "web"}
		looptest.Create(w.Server, "deployments", "a", &appsv1.Deployment{
			ObjectMeta: metav1.ObjectMeta{Name: "web"},
			Spec: appsv1.DeploymentSpec{Replicas: &one, Selector: &metav1.LabelSelector{MatchLabels: match}, Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: match}, Spec: corev1.PodSpec{Containers: looptest.Containers()},
			}},
		})
		hpa.ScaleTargetRef = autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "web"}
		looptest.Create(w.Server, "horizontalpodautoscalers", "a", &autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: hpa})
		f(w)
	})
}

func (w *world) start() {
	w.Helper()
	looptest.Start(w.T, w.Clients(), podautoscaler.Options{Metrics: podautoscaler.NewMetrics(meter.New(w.metrics))}.Entry())
}

// have makes ready pods with a CPU usage, in place of the Deployment's loop.
func (w *world) have(count int, cpu string) {
	w.Helper()
	w.figures.mu.Lock()
	clear(w.figures.pods)
	for i := range count {
		w.figures.pods[fmt.Sprint("web-", i)] = cpu
	}
	w.figures.mu.Unlock()
	there := len(looptest.All[corev1.Pod](w.Server, "pods"))
	began := metav1.NewTime(time.Now().Add(-time.Hour))
	for i := there; i < count; i++ {
		looptest.Create(w.Server, "pods", "a", &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("web-", i), Labels: map[string]string{"app": "web"}},
			Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "i", Resources: corev1.ResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")},
			}}}},
			Status: corev1.PodStatus{Phase: corev1.PodRunning, StartTime: &began, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: began}}},
		})
	}
	for i := count; i < there; i++ {
		if err := w.Kube.CoreV1().Pods("a").Delete(w.Context(), fmt.Sprint("web-", i), *metav1.NewDeleteOptions(0)); err != nil {
			w.Fatal(err)
		}
	}
	looptest.Edit(w.Server, "deployments", "a", "web", func(d *appsv1.Deployment) { d.Status.Replicas = int32(count) })
}

func (w *world) pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func (w *world) replicas(want int32) {
	w.Helper()
	d, err := w.Kube.AppsV1().Deployments("a").Get(w.Context(), "web", metav1.GetOptions{})
	if err != nil {
		w.Fatal(err)
	}
	if *d.Spec.Replicas != want {
		w.Errorf("there are %d replicas, want %d", *d.Spec.Replicas, want)
	}
}

func (w *world) condition(kind autoscalingv2.HorizontalPodAutoscalerConditionType, status corev1.ConditionStatus, reason string) {
	w.Helper()
	all := looptest.All[autoscalingv2.HorizontalPodAutoscaler](w.Server, "horizontalpodautoscalers")[0].Status.Conditions
	for _, c := range all {
		if c.Type == kind && c.Status == status && c.Reason == reason {
			return
		}
	}
	w.Errorf("no condition is %s=%s because of %s, but %+v", kind, status, reason, all)
}

// message compares the message of a condition.
func (w *world) message(kind autoscalingv2.HorizontalPodAutoscalerConditionType, want string) {
	w.Helper()
	for _, c := range looptest.All[autoscalingv2.HorizontalPodAutoscaler](w.Server, "horizontalpodautoscalers")[0].Status.Conditions {
		if c.Type == kind && c.Message != want {
			w.Errorf("the message of %s is\n%s, want\n%s", kind, c.Message, want)
		}
	}
}

func byCPU(percent int32) []autoscalingv2.MetricSpec {
	return []autoscalingv2.MetricSpec{{Type: autoscalingv2.ResourceMetricSourceType, Resource: &autoscalingv2.ResourceMetricSource{
		Name: corev1.ResourceCPU, Target: autoscalingv2.MetricTarget{Type: autoscalingv2.UtilizationMetricType, AverageUtilization: &percent},
	}}}
}

func TestAWorkloadGrowsAndShrinksWithItsLoad(t *testing.T) {
	inWorld(t, autoscalingv2.HorizontalPodAutoscalerSpec{MaxReplicas: 10, Metrics: byCPU(50)}, func(w *world) {
		w.have(1, "900m")
		w.start()
		w.pass(20 * time.Second)
		w.replicas(2) // 90 % of 50 %: 1.8
		w.condition(autoscalingv2.ScalingActive, corev1.ConditionTrue, "ValidMetricFound")
		w.have(2, "520m") // 104 % of the target is within the tolerance
		w.pass(time.Minute)
		w.replicas(2)
		w.have(2, "2")
		w.pass(15 * time.Second)
		w.replicas(4) // eight would be needed, but a workload may only double
		w.have(4, "2")
		w.pass(15 * time.Second)
		w.replicas(8)
		w.have(8, "2")
		w.pass(15 * time.Second)
		w.replicas(10)
		w.have(10, "100m")
		w.pass(4 * time.Minute)
		w.replicas(10)
		w.condition(autoscalingv2.AbleToScale, corev1.ConditionTrue, "ScaleDownStabilized")
		w.pass(2 * time.Minute)
		w.replicas(2)
		var told bool
		for _, e := range looptest.All[corev1.Event](w.Server, "events") {
			told = told || e.Reason == "SuccessfulRescale" && e.Message == "New size: 2; reason: cpu resource utilization (percentage of request) above target"
		}
		if !told {
			w.Error("no event tells of the first change")
		}
	})
}

func TestBehavioursLimitTheRate(t *testing.T) {
	window, value := int32(0), int32(1)
	b := &autoscalingv2.HorizontalPodAutoscalerBehavior{
		ScaleUp:   &autoscalingv2.HPAScalingRules{Policies: []autoscalingv2.HPAScalingPolicy{{Type: autoscalingv2.PodsScalingPolicy, Value: value, PeriodSeconds: 60}}},
		ScaleDown: &autoscalingv2.HPAScalingRules{StabilizationWindowSeconds: &window, Policies: []autoscalingv2.HPAScalingPolicy{{Type: autoscalingv2.PercentScalingPolicy, Value: 50, PeriodSeconds: 60}}},
	}
	inWorld(t, autoscalingv2.HorizontalPodAutoscalerSpec{MaxReplicas: 10, Metrics: byCPU(50), Behavior: b}, func(w *world) {
		w.have(1, "4")
		w.start()
		w.pass(50 * time.Second)
		w.replicas(2)
		w.condition(autoscalingv2.ScalingLimited, corev1.ConditionTrue, "ScaleUpLimit")
		w.have(2, "4")
		w.pass(65 * time.Second)
		w.replicas(3)
		looptest.Edit(w.Server, "deployments", "a", "web", func(d *appsv1.Deployment) { *d.Spec.Replicas = 8 })
		w.have(8, "1m")
		w.pass(50 * time.Second)
		w.replicas(4) // half of the size at the start of the minute
	})
}

func TestNothingShrinksWhileAMetricFails(t *testing.T) {
	metrics := append(byCPU(50), autoscalingv2.MetricSpec{Type: autoscalingv2.ExternalMetricSourceType, External: &autoscalingv2.ExternalMetricSource{
		Metric: autoscalingv2.MetricIdentifier{Name: "queue"}, Target: autoscalingv2.MetricTarget{Type: autoscalingv2.AverageValueMetricType, AverageValue: resource.NewQuantity(10, resource.DecimalSI)},
	}})
	inWorld(t, autoscalingv2.HorizontalPodAutoscalerSpec{MaxReplicas: 10, Metrics: metrics}, func(w *world) {
		looptest.Edit(w.Server, "deployments", "a", "web", func(d *appsv1.Deployment) { *d.Spec.Replicas = 4 })
		w.have(4, "1m")
		w.start()
		w.pass(10 * time.Minute)
		w.replicas(4)
		w.condition(autoscalingv2.ScalingActive, corev1.ConditionFalse, "FailedGetExternalMetric")
		w.message(autoscalingv2.ScalingActive, "the HPA was unable to compute the replica count: unable to get external metric a/queue/nil: no metrics returned from external metrics API")
		w.figures.mu.Lock()
		w.figures.other["/namespaces/a/queue"] = "60"
		w.figures.mu.Unlock()
		w.pass(time.Minute)
		w.replicas(6)
	})
}

func TestMetricsOfObjectsAndPodsAreUsed(t *testing.T) {
	value := func(n int64) *resource.Quantity { return resource.NewQuantity(n, resource.DecimalSI) }
	metrics := []autoscalingv2.MetricSpec{{Type: autoscalingv2.ObjectMetricSourceType, Object: &autoscalingv2.ObjectMetricSource{
		DescribedObject: autoscalingv2.CrossVersionObjectReference{APIVersion: "v1", Kind: "Service", Name: "web"},
		Metric:          autoscalingv2.MetricIdentifier{Name: "requests"}, Target: autoscalingv2.MetricTarget{Type: autoscalingv2.ValueMetricType, Value: value(100)},
	}}}
	inWorld(t, autoscalingv2.HorizontalPodAutoscalerSpec{MaxReplicas: 10, Metrics: metrics}, func(w *world) {
		w.have(1, "0")
		w.figures.other["/namespaces/a/services/web/requests"] = "300"
		w.start()
		w.pass(20 * time.Second)
		w.replicas(3)
		if s := looptest.All[autoscalingv2.HorizontalPodAutoscaler](w.Server, "horizontalpodautoscalers")[0].Status; s.CurrentMetrics[0].Object.Current.Value.String() != "300" || s.DesiredReplicas != 3 || s.LastScaleTime == nil {
			t.Errorf("the status is %+v", s)
		}
	})
}

func TestPodsThatAreNotReadyCauseNoFurtherGrowth(t *testing.T) {
	inWorld(t, autoscalingv2.HorizontalPodAutoscalerSpec{MaxReplicas: 10, Metrics: byCPU(50)}, func(w *world) {
		looptest.Edit(w.Server, "deployments", "a", "web", func(d *appsv1.Deployment) { *d.Spec.Replicas = 3 })
		w.have(3, "900m")
		for _, pod := range []string{"web-1", "web-2"} {
			looptest.Edit(w.Server, "pods", "a", pod, func(p *corev1.Pod) { p.Status.Phase = corev1.PodPending })
		}
		w.start()
		w.pass(time.Minute)
		w.replicas(3) // one pod uses 180 % of the target, and two more may become ready and share the load
	})
}

func TestTwoAutoscalersOfTheSamePodsAreReported(t *testing.T) {
	inWorld(t, autoscalingv2.HorizontalPodAutoscalerSpec{MaxReplicas: 10, Metrics: byCPU(50)}, func(w *world) {
		looptest.Create(w.Server, "horizontalpodautoscalers", "a", &autoscalingv2.HorizontalPodAutoscaler{
			ObjectMeta: metav1.ObjectMeta{Name: "also"},
			Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
				MaxReplicas: 5, Metrics: byCPU(10), ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "web"},
			},
		})
		w.have(1, "100m")
		w.start()
		w.pass(time.Minute)
		w.replicas(1)
		w.condition(autoscalingv2.ScalingActive, corev1.ConditionFalse, "AmbiguousSelector")
		if w.measured("reconciliations_total none spec") == 0 {
			t.Errorf("evaluations are counted as %v", looptest.Measured(t, w.metrics))
		}
	})
}

func TestAMissingWorkloadIsReported(t *testing.T) {
	inWorld(t, autoscalingv2.HorizontalPodAutoscalerSpec{MaxReplicas: 10, Metrics: byCPU(50)}, func(w *world) {
		if err := w.Kube.AppsV1().Deployments("a").Delete(w.Context(), "web", metav1.DeleteOptions{}); err != nil {
			w.Fatal(err)
		}
		w.start()
		w.pass(time.Minute)
		w.condition(autoscalingv2.AbleToScale, corev1.ConditionFalse, "FailedGetScale")
	})
}

func TestEvaluationsAreCounted(t *testing.T) {
	half := int32(50)
	spec := autoscalingv2.HorizontalPodAutoscalerSpec{MaxReplicas: 10, Metrics: []autoscalingv2.MetricSpec{{
		Type:     autoscalingv2.ResourceMetricSourceType,
		Resource: &autoscalingv2.ResourceMetricSource{Name: corev1.ResourceCPU, Target: autoscalingv2.MetricTarget{Type: autoscalingv2.UtilizationMetricType, AverageUtilization: &half}},
	}}}
	inWorld(t, spec, func(w *world) {
		w.have(1, "1")
		w.start()
		w.pass(time.Second)
		w.replicas(2)
		if all, metric := w.measured("reconciliations_total scale_up none"), w.measured("metric_computation_total scale_up none Resource"); all != 1 || metric != 1 {
			t.Errorf("a workload that grows is counted %v times, its metric %v times", all, metric)
		}
		if n, wanted := w.measured("num_horizontal_pod_autoscalers"), w.measured("desired_replicas web a"); n != 1 || wanted != 2 {
			t.Errorf("%v autoscalers, one wants %v replicas", n, wanted)
		}
	})
}
