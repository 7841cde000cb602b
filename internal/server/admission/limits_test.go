package admission_test

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/millrace/millrace/internal/server/admission"
	"github.com/millrace/millrace/internal/server/registry"
	"github.com/millrace/millrace/internal/server/resource"
)

// list reads "cpu=1,memory=1Gi".
func list(text string) corev1.ResourceList {
	if text == "" {
		return nil
	}
	out := corev1.ResourceList{}
	for part := range strings.SplitSeq(text, ",") {
		name, q, _ := strings.Cut(part, "=")
		out[corev1.ResourceName(name)] = apiresource.MustParse(q)
	}
	return out
}

func asking(requests, limits string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.Containers[0].Resources = corev1.ResourceRequirements{Requests: list(requests), Limits: list(limits)}
	}
}

func TestContainersGetTheLimitsOfTheirNamespace(t *testing.T) {
	w := newServer(t, admission.Options{})
	w.create("limitranges", &corev1.LimitRange{ObjectMeta: meta("l"), Spec: corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{
		{Type: corev1.LimitTypeContainer, Default: list("cpu=1,memory=1Gi"), DefaultRequest: list("cpu=500m,memory=512Mi")},
	}}})
	p := w.create("pods", pod("p", asking("cpu=100m", ""))).(*corev1.Pod)
	r := p.Spec.Containers[0].Resources
	if cpu, memory, limit := r.Requests["cpu"], r.Requests["memory"], r.Limits["cpu"]; cpu.String() != "100m" || memory.String() != "512Mi" || limit.String() != "1" {
		t.Errorf("%+v", r)
	}
	want := "LimitRanger plugin set: memory request for container c; cpu, memory limit for container c"
	if got := p.Annotations["kubernetes.io/limit-ranger"]; got != want {
		t.Errorf("got %q", got)
	}
}

func TestLimits(t *testing.T) {
	container := func(min, max, ratio string) corev1.LimitRangeItem {
		return corev1.LimitRangeItem{Type: corev1.LimitTypeContainer, Min: list(min), Max: list(max), MaxLimitRequestRatio: list(ratio)}
	}
	whole := func(min, max string) corev1.LimitRangeItem {
		return corev1.LimitRangeItem{Type: corev1.LimitTypePod, Min: list(min), Max: list(max)}
	}
	for _, c := range []struct {
		name  string
		item  corev1.LimitRangeItem
		pod   func(*corev1.Pod)
		words string
	}{
		{"within", container("cpu=100m", "cpu=2", "cpu=4"), asking("cpu=500m", "cpu=1"), ""},
		{"below", container("cpu=100m", "", ""), asking("cpu=50m", "cpu=1"), "minimum cpu usage per Container is 100m, but request is 50m"},
		{"above", container("", "cpu=2", ""), asking("cpu=1", "cpu=3"), "maximum cpu usage per Container is 2, but limit is 3"},
		{"ratio", container("", "", "cpu=2"), asking("cpu=1", "cpu=3"), "cpu max limit to request ratio per Container is 2, but provided ratio is 3.000000"},
		{"no ratio", container("", "", "memory=2"), asking("", ""), "memory max limit to request ratio per Container is 2, but no request is specified or request is 0"},
		{"pod above", whole("", "cpu=2"), asking("cpu=1", "cpu=3"), "maximum cpu usage per Pod is 2, but limit is 3"},
		{"pod below", whole("memory=1Gi", ""), asking("memory=1Mi", "memory=1Gi"), "minimum memory usage per Pod is 1Gi, but request is 1Mi"},
		{"pod says nothing", whole("memory=1Gi", ""), asking("", ""), "minimum memory usage per Pod is 1Gi.  No request is specified"},
		{"several", whole("", "cpu=1,memory=1Gi"), asking("", ""),
			"[maximum cpu usage per Pod is 1.  No limit is specified, maximum memory usage per Pod is 1Gi.  No limit is specified]"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newServer(t, admission.Options{})
			w.create("limitranges", &corev1.LimitRange{ObjectMeta: meta("l"), Spec: corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{c.item}}})
			_, err := w.Try("pods", pod("p", c.pod), registry.WriteOptions{})
			if c.words == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			refused(t, err, c.words)
		})
	}
}

func TestClaimsHaveLimitsToo(t *testing.T) {
	w := newServer(t, admission.Options{})
	w.create("limitranges", &corev1.LimitRange{ObjectMeta: meta("l"), Spec: corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{
		{Type: corev1.LimitTypePersistentVolumeClaim, Min: list("storage=1Gi"), Max: list("storage=2Gi")}}}})
	_, err := w.Try("persistentvolumeclaims", claim("c", "3Gi"), registry.WriteOptions{})
	refused(t, err, "maximum storage usage per PersistentVolumeClaim is 2Gi, but request is 3Gi")
	_, err = w.Try("persistentvolumeclaims", claim("c", "1Mi"), registry.WriteOptions{})
	refused(t, err, "minimum storage usage per PersistentVolumeClaim is 1Gi, but request is 1Mi")
	w.create("persistentvolumeclaims", claim("c", "2Gi"))
}

// quota makes a quota of which nothing is used yet.
func (se *server) quota(name, hard string, change ...func(*corev1.ResourceQuota)) {
	se.t.Helper()
	q := &corev1.ResourceQuota{ObjectMeta: meta(name), Spec: corev1.ResourceQuotaSpec{Hard: list(hard)}}
	for _, c := range change {
		c(q)
	}
	se.create("resourcequotas", q)
	se.update("resourcequotas", "n", name, "status", func(o resource.Object) {
		q := o.(*corev1.ResourceQuota)
		q.Status.Hard, q.Status.Used = q.Spec.Hard, corev1.ResourceList{}
		for name := range q.Spec.Hard {
			q.Status.Used[name] = apiresource.MustParse("0")
		}
	})
}

func (se *server) used(quota string) corev1.ResourceList {
	se.t.Helper()
	return se.read("resourcequotas", "n", quota).(*corev1.ResourceQuota).Status.Used
}

func TestQuotasAreChargedAndNeverExceeded(t *testing.T) {
	w := newServer(t, admission.Options{})
	w.quota("q", "pods=2,requests.cpu=1,count/configmaps=1,persistentvolumeclaims=5,requests.storage=3Gi")
	_, err := w.Try("pods", pod("p"), registry.WriteOptions{})
	refused(t, err, `pods "p" is forbidden: failed quota: q: must specify requests.cpu for: c`)
	w.create("pods", pod("a", asking("cpu=600m", "")))
	_, err = w.Try("pods", pod("b", asking("cpu=600m", "")), registry.WriteOptions{})
	refused(t, err, `exceeded quota: q, requested: requests.cpu=600m, used: requests.cpu=600m, limited: requests.cpu=1`)
	w.create("pods", pod("b", asking("cpu=400m", "")))
	_, err = w.Try("pods", pod("c", asking("cpu=0", "")), registry.WriteOptions{})
	refused(t, err, `exceeded quota: q, requested: pods=1, used: pods=2, limited: pods=2`)
	if _, err := w.Try("configmaps", &corev1.ConfigMap{ObjectMeta: meta("x")}, registry.WriteOptions{DryRun: true}); err != nil {
		t.Error(err)
	}
	w.create("configmaps", &corev1.ConfigMap{ObjectMeta: meta("x")})
	_, err = w.Try("configmaps", &corev1.ConfigMap{ObjectMeta: meta("y")}, registry.WriteOptions{})
	refused(t, err, "exceeded quota: q, requested: count/configmaps=1, used: count/configmaps=1, limited: count/configmaps=1")
	w.create("persistentvolumeclaims", claim("c", "2Gi"))
	_, err = w.Try("persistentvolumeclaims", claim("d", "2Gi"), registry.WriteOptions{})
	refused(t, err, "exceeded quota: q, requested: requests.storage=2Gi, used: requests.storage=2Gi, limited: requests.storage=3Gi")
	used := w.used("q")
	if cpu, pods, claims := used["requests.cpu"], used["pods"], used["persistentvolumeclaims"]; cpu.String() != "1" || pods.Value() != 2 || claims.Value() != 1 {
		t.Errorf("used %v", used)
	}
}

func TestQuotasOfScopesAreAboutTheirPodsAlone(t *testing.T) {
	w := newServer(t, admission.Options{})
	w.quota("best", "pods=1", func(q *corev1.ResourceQuota) {
		q.Spec.Scopes = []corev1.ResourceQuotaScope{corev1.ResourceQuotaScopeBestEffort}
	})
	w.create("pods", pod("a"))
	w.create("pods", pod("b", asking("cpu=1", "")))
	_, err := w.Try("pods", pod("c"), registry.WriteOptions{})
	refused(t, err, "exceeded quota: best, requested: pods=1, used: pods=1, limited: pods=1")
}

// A pod that gets a deadline is from then on charged to the quota of those that end.
func TestAPodThatGetsADeadlineIsChargedToAnotherQuota(t *testing.T) {
	w := newServer(t, admission.Options{})
	w.quota("ending", "pods=1", func(q *corev1.ResourceQuota) {
		q.Spec.Scopes = []corev1.ResourceQuotaScope{corev1.ResourceQuotaScopeTerminating}
	})
	ends := func(o resource.Object) { o.(*corev1.Pod).Spec.ActiveDeadlineSeconds = ptr.To(int64(60)) }
	w.create("pods", pod("a"))
	w.create("pods", pod("b"))
	w.update("pods", "n", "a", "", ends)
	if pods := w.used("ending")["pods"]; pods.Value() != 1 {
		t.Errorf("%v pods are charged, want the one with a deadline", pods.Value())
	}
	late := pod("c")
	ends(late)
	_, err := w.Try("pods", late, registry.WriteOptions{})
	refused(t, err, "exceeded quota: ending, requested: pods=1, used: pods=1, limited: pods=1")
	w.update("pods", "n", "a", "", func(o resource.Object) { o.SetLabels(map[string]string{"a": "b"}) })
	if pods := w.used("ending")["pods"]; pods.Value() != 1 {
		t.Errorf("%v pods are charged after a change of something else", pods.Value())
	}
}

func TestServicesAreCountedByTheirType(t *testing.T) {
	w := newServer(t, admission.Options{})
	w.quota("q", "services=5,services.nodeports=1,services.loadbalancers=0")
	make := func(name string, of corev1.ServiceType) error {
		_, err := w.Try("services", &corev1.Service{ObjectMeta: meta(name), Spec: corev1.ServiceSpec{Type: of, Ports: []corev1.ServicePort{{Port: 80}}}}, registry.WriteOptions{})
		return err
	}
	if err := make("a", corev1.ServiceTypeNodePort); err != nil {
		t.Fatal(err)
	}
	refused(t, make("b", corev1.ServiceTypeNodePort), "exceeded quota: q, requested: services.nodeports=1, used: services.nodeports=1, limited: services.nodeports=1")
	refused(t, make("b", corev1.ServiceTypeLoadBalancer), "services.loadbalancers=1")
	if err := make("b", corev1.ServiceTypeClusterIP); err != nil {
		t.Fatal(err)
	}
}

func TestQuotaThatNobodyHasCountedIsNotInForce(t *testing.T) {
	w := newServer(t, admission.Options{})
	w.create("resourcequotas", &corev1.ResourceQuota{ObjectMeta: meta("q"), Spec: corev1.ResourceQuotaSpec{Hard: list("pods=0")}})
	w.create("pods", pod("p"))
	w.update("resourcequotas", "n", "q", "status", func(o resource.Object) { o.(*corev1.ResourceQuota).Status.Hard = list("pods=5") })
	_, err := w.Try("pods", pod("o"), registry.WriteOptions{})
	refused(t, err, "status unknown for quota: q, resources: pods")
}

func TestManyAtOnceStayWithinTheirQuota(t *testing.T) {
	w := newServer(t, admission.Options{})
	w.quota("q", "count/configmaps=50")
	var made atomic.Int32
	var running sync.WaitGroup
	for i := range 200 {
		running.Go(func() {
			if _, err := w.Try("configmaps", &corev1.ConfigMap{ObjectMeta: meta(fmt.Sprintf("c%d", i))}, registry.WriteOptions{}); err == nil {
				made.Add(1)
			} else {
				refused(t, err, "exceeded quota: q")
			}
		})
	}
	running.Wait()
	if used := w.used("q")["count/configmaps"]; made.Load() != 50 || used.Value() != 50 {
		t.Errorf("%d made, %s charged", made.Load(), used.String())
	}
}

// BenchmarkPodAdmission is what all plugins cost a pod that none of them has much to do with.
func BenchmarkPodAdmission(b *testing.B) {
	w := newServer(b, admission.Options{})
	s := w.Of("pods")
	p := pod("p")
	s.Kind().Default(p)
	p.Namespace = "n"
	b.ReportAllocs()
	for b.Loop() {
		p.Spec.Tolerations = nil
		p.Spec.Priority, p.Spec.PreemptionPolicy = nil, nil
		if err := w.Admit(b.Context(), &registry.Change{Operation: registry.Create, Kind: s.Kind(), Namespace: "n", Name: "p", Object: p}); err != nil {
			b.Fatal(err)
		}
	}
}

// TestDevicesAreChargedOnce: what a pod asks for is charged with it, and not once more with the claim that is made for
// that.
func TestDevicesAreChargedOnce(t *testing.T) {
	w := newServer(t, admission.Options{})
	w.quota("q", "requests.example.com/gpu=3,gpu.deviceclass.resource.k8s.io/devices=3,count/resourceclaims.resource.k8s.io=5")
	w.create("deviceclasses.resource.k8s.io", &resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "gpu"}, Spec: resourcev1.DeviceClassSpec{ExtendedResourceName: new("example.com/gpu")}})
	p := w.create("pods", pod("p", asking("example.com/gpu=2", "example.com/gpu=2"))).(*corev1.Pod)
	claim := func(name string, count int64, special bool) *resourcev1.ResourceClaim {
		c := &resourcev1.ResourceClaim{ObjectMeta: meta(name), Spec: resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{Requests: []resourcev1.DeviceRequest{
			{Name: "r", Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: "gpu", AllocationMode: "ExactCount", Count: count}}}}}}
		if special {
			c.Annotations = map[string]string{resourcev1.ExtendedResourceClaimAnnotation: "true"}
			c.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: "p", UID: p.UID, Controller: new(true)}}
		}
		return c
	}
	_, err := w.Try("resourceclaims.resource.k8s.io", claim("own", 2, false), registry.WriteOptions{})
	refused(t, err, "exceeded quota: q, requested: requests.example.com/gpu=2, used: requests.example.com/gpu=2, limited: requests.example.com/gpu=3")
	w.create("resourceclaims.resource.k8s.io", claim("first", 2, true))
	_, err = w.Try("resourceclaims.resource.k8s.io", claim("second", 2, true), registry.WriteOptions{})
	refused(t, err, "exceeded quota: q, requested: gpu.deviceclass.resource.k8s.io/devices=2,requests.example.com/gpu=2, ")
	w.create("resourceclaims.resource.k8s.io", claim("own", 1, false))
	if got, want := w.used("q"), list("requests.example.com/gpu=3,gpu.deviceclass.resource.k8s.io/devices=3,count/resourceclaims.resource.k8s.io=2"); !equality.Semantic.DeepEqual(got, want) {
		t.Errorf("used are %v, want %v", got, want)
	}
}
