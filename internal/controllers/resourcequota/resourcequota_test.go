package resourcequota_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/millrace/millrace/internal/controllers/internal/looptest"
	"github.com/millrace/millrace/internal/controllers/resourcequota"
	"github.com/millrace/millrace/loop"
	"github.com/millrace/millrace/millracetest"
)

type cluster struct {
	*testing.T
	server  *looptest.Server
	clients *loop.Clients
}

func prepare(t *testing.T) *cluster {
	server := looptest.New(t, millracetest.API(t))
	return &cluster{t, server, server.Clients()}
}

func start(t *testing.T) *cluster {
	c := prepare(t)
	looptest.Start(t, c.clients, resourcequota.Entry)
	return c
}

// list makes a resource list from names and amounts.
func list(words ...string) corev1.ResourceList {
	l := corev1.ResourceList{}
	for i := 0; i < len(words); i += 2 {
		l[corev1.ResourceName(words[i])] = resource.MustParse(words[i+1])
	}
	return l
}

func must[V any](v V, err error) func(testing.TB) V {
	return func(t testing.TB) V {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func (c *cluster) quota(name string, hard corev1.ResourceList, scopes ...corev1.ResourceQuotaScope) {
	c.Helper()
	q := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.ResourceQuotaSpec{Hard: hard, Scopes: scopes}}
	must(c.clients.Kube.CoreV1().ResourceQuotas("default").Create(c.Context(), q, metav1.CreateOptions{}))(c)
}

func (c *cluster) pod(name, cpu string, deadline *int64) {
	c.Helper()
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PodSpec{ActiveDeadlineSeconds: deadline, Containers: looptest.Containers()}}
	if cpu != "" {
		p.Spec.Containers = []corev1.Container{{Name: "main", Image: "image", Resources: corev1.ResourceRequirements{Requests: list("cpu", cpu)}}}
	}
	must(c.clients.Kube.CoreV1().Pods("default").Create(c.Context(), p, metav1.CreateOptions{}))(c)
}

func (c *cluster) status(name string) corev1.ResourceQuotaStatus {
	c.Helper()
	return must(c.clients.Kube.CoreV1().ResourceQuotas("default").Get(c.Context(), name, metav1.GetOptions{}))(c).Status
}

func (c *cluster) want(name string, used corev1.ResourceList) {
	c.Helper()
	if got := c.status(name).Used; !apiequality.Semantic.DeepEqual(got, used) {
		c.Errorf("%s: used are %v, want %v", name, got, used)
	}
}

func settle() {
	time.Sleep(5 * time.Second)
	synctest.Wait()
}

func TestTheStatusHasTheUsage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t)
		hard := list("pods", "9", "count/pods", "9", "requests.cpu", "2", "limits.memory", "1Gi", "services", "3", "services.nodeports", "2", "count/deployments.apps", "4", "configmaps", "5")
		// The pods come first: a quota whose status is known would refuse them, because they have no limits.
		c.pod("a", "300m", nil)
		c.pod("b", "500m", nil)
		c.pod("over", "1", nil)
		looptest.Edit(c.server, "pods", "default", "over", func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded })
		c.quota("all", hard)
		c.quota("other", list("configmaps", "1"))
		must(c.clients.Kube.AppsV1().Deployments("default").Create(t.Context(), &appsv1.Deployment{
			ObjectMeta: metav1.ObjectMeta{Name: "d"},
			Spec: appsv1.DeploymentSpec{
				Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "d"}},
				Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "d"}}, Spec: corev1.PodSpec{Containers: looptest.Containers()}},
			},
		}, metav1.CreateOptions{}))(t)
		must(c.clients.Kube.CoreV1().Services("default").Create(t.Context(), &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "s"},
			Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeNodePort, Ports: []corev1.ServicePort{{Name: "a", Port: 1}, {Name: "b", Port: 2}}}}, metav1.CreateOptions{}))(t)
		looptest.Namespace(c.server, "elsewhere")
		must(c.clients.Kube.CoreV1().ConfigMaps("elsewhere").Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "m"}}, metav1.CreateOptions{}))(t)
		settle()
		if got := c.status("all").Hard; !apiequality.Semantic.DeepEqual(got, hard) {
			t.Errorf("the limits are %v", got)
		}
		c.want("all", list("pods", "2", "count/pods", "3", "requests.cpu", "800m", "limits.memory", "0", "services", "2", "services.nodeports", "2", "count/deployments.apps", "1", "configmaps", "0"))
		c.want("other", list("configmaps", "0"))
	})
}

func TestScopesDecideWhichPodsAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t)
		for _, scope := range []corev1.ResourceQuotaScope{
			corev1.ResourceQuotaScopeTerminating, corev1.ResourceQuotaScopeNotTerminating, corev1.ResourceQuotaScopeBestEffort, corev1.ResourceQuotaScopeNotBestEffort,
		} {
			c.quota("of-"+strings.ToLower(string(scope)), list("pods", "9"), scope)
		}
		soon := int64(60)
		c.pod("a", "1", nil)
		c.pod("b", "", nil)
		c.pod("c", "", &soon)
		settle()
		c.want("of-terminating", list("pods", "1"))
		c.want("of-notterminating", list("pods", "2"))
		c.want("of-besteffort", list("pods", "2"))
		c.want("of-notbesteffort", list("pods", "1"))
	})
}

func TestLowerUsageIsWrittenSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t)
		c.quota("q", list("pods", "1"))
		c.pod("a", "1", nil)
		settle()
		c.want("q", list("pods", "1"))
		if err := c.clients.Kube.CoreV1().Pods("default").Delete(t.Context(), "a", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Second)
		c.want("q", list("pods", "0"))
	})
}

// Admission charges before it stores. For a moment the count is lower than the status, and writing it would admit more
// than the quota allows.
func TestAChargeWhoseObjectIsNotStoredYetIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t)
		c.quota("q", list("pods", "50"))
		settle()
		for i := range 20 {
			looptest.Edit(c.server, "resourcequotas", "default", "q", func(q *corev1.ResourceQuota) { q.Status.Used = list("pods", fmt.Sprint(i+1)) })
			time.Sleep(300 * time.Millisecond)
			c.want("q", list("pods", fmt.Sprint(i+1)))
			c.pod(fmt.Sprint("p", i), "1", nil)
		}
		settle()
		c.want("q", list("pods", "20"))
	})
}

func TestAChargeWhoseObjectIsNeverStoredIsRemovedInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t)
		c.quota("q", list("pods", "50"))
		settle()
		looptest.Edit(c.server, "resourcequotas", "default", "q", func(q *corev1.ResourceQuota) { q.Status.Used = list("pods", "7") })
		settle()
		c.want("q", list("pods", "0"))
	})
}

func TestKindsThatAreAddedLaterAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := prepare(t)
		c.server.Hide("networking.k8s.io")
		looptest.Start(t, c.clients, resourcequota.Entry)
		c.quota("q", list("count/networkpolicies.networking.k8s.io", "3", "configmaps", "1"))
		settle()
		c.want("q", list("configmaps", "0")) // a resource that cannot be counted is not reported as 0
		c.server.Hide("")
		time.Sleep(time.Minute)
		c.want("q", list("configmaps", "0", "count/networkpolicies.networking.k8s.io", "0"))
	})
}

func TestAKindThatIsDeletedIsNoTroubleAndIsCountedAgainWhenItComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		config := millracetest.API(t)
		server := looptest.New(t, config)
		c := &cluster{t, server, server.Clients()}
		var log bytes.Buffer
		c.clients.Log = slog.New(slog.NewTextHandler(&log, nil))
		stop := looptest.Start(t, c.clients, resourcequota.Entry)
		client, err := dynamic.NewForConfig(config)
		if err != nil {
			t.Fatal(err)
		}
		definitions := client.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"})
		widgets := client.Resource(schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"}).Namespace("default")
		widget := func(name string) *unstructured.Unstructured {
			return &unstructured.Unstructured{Object: map[string]any{"apiVersion": "example.com/v1", "kind": "Widget", "metadata": map[string]any{"name": name}}}
		}
		must(definitions.Create(t.Context(), definition(), metav1.CreateOptions{}))(t)
		must(widgets.Create(t.Context(), widget("a"), metav1.CreateOptions{}))(t)
		c.quota("q", list("count/widgets.example.com", "5"))
		settle()
		c.want("q", list("count/widgets.example.com", "1"))
		if err := definitions.Delete(t.Context(), "widgets.example.com", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		c.want("q", list())
		must(definitions.Create(t.Context(), definition(), metav1.CreateOptions{}))(t)
		time.Sleep(time.Minute) // until then the quota refuses what it cannot count
		must(widgets.Create(t.Context(), widget("b"), metav1.CreateOptions{}))(t)
		must(widgets.Create(t.Context(), widget("c"), metav1.CreateOptions{}))(t)
		time.Sleep(time.Minute)
		c.want("q", list("count/widgets.example.com", "2"))
		stop()
		if strings.Contains(log.String(), "level=WARN") {
			t.Errorf("a definition that is deleted is logged as trouble:\n%s", &log)
		}
	})
}

func definition() *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": map[string]any{"name": "widgets.example.com"},
		"spec": map[string]any{
			"group": "example.com", "scope": "Namespaced", "names": map[string]any{"plural": "widgets", "singular": "widget", "kind": "Widget"},
			"versions": []any{map[string]any{
				"name": "v1", "served": true, "storage": true,
				"schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object"}},
			}},
		},
	}}
}

// Loops crash at any write, watches are cut, delayed or expired: in the end the quotas have the right usage.
func TestWhateverHappensTheCountIsRight(t *testing.T) {
	for seed := range uint64(4) {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { converge(t, seed) })
		})
	}
}

func converge(t *testing.T, seed uint64) {
	random := rand.New(rand.NewPCG(seed, 1))
	c := prepare(t)
	lives := looptest.StartLives(t, c.server, rand.New(rand.NewPCG(seed, 2)), resourcequota.Entry)
	c.quota("q", list("pods", "200", "requests.cpu", "100"))
	pods := map[string]bool{}
	for i := 0; i < 120 || lives.Deaths() == 0; i++ {
		switch random.IntN(7) {
		case 0, 1, 2:
			name := fmt.Sprint("p", i)
			c.pod(name, "250m", nil)
			pods[name] = true
		case 3:
			for name := range pods {
				if err := c.clients.Kube.CoreV1().Pods("default").Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
					t.Fatal(err)
				}
				delete(pods, name)
				break
			}
		case 4:
			c.server.DropWatches()
		case 5:
			c.server.Compact()
		case 6:
			c.server.HoldWatches(random.IntN(2) == 0)
		}
		time.Sleep(time.Duration(random.IntN(2000)) * time.Millisecond)
	}
	c.server.HoldWatches(false)
	if lives.Calm() == 0 {
		t.Error("nothing crashed: the test shows nothing")
	}
	time.Sleep(10 * time.Minute)
	c.want("q", list("pods", fmt.Sprint(len(pods)), "requests.cpu", fmt.Sprint(250*len(pods), "m")))
}

func TestDevicesAreCountedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t)
		kube := c.clients.Kube
		must(kube.ResourceV1().DeviceClasses().Create(t.Context(), &resourcev1.DeviceClass{
			ObjectMeta: metav1.ObjectMeta{Name: "gpu"}, Spec: resourcev1.DeviceClassSpec{ExtendedResourceName: new("example.com/gpu")},
		}, metav1.CreateOptions{}))(t)
		pod := must(kube.CoreV1().Pods("default").Create(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: corev1.PodSpec{
			Containers: []corev1.Container{{Name: "main", Image: "image", Resources: corev1.ResourceRequirements{
				Requests: list("example.com/gpu", "2"), Limits: list("example.com/gpu", "2")}}},
		}}, metav1.CreateOptions{}))(t)
		claim := func(name string, count int64, special bool) {
			d := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{
				Requests: []resourcev1.DeviceRequest{{Name: "r", Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: "gpu", AllocationMode: "ExactCount", Count: count}}}}}}
			if special {
				d.Annotations = map[string]string{resourcev1.ExtendedResourceClaimAnnotation: "true"}
				d.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: "p", UID: pod.UID, Controller: new(true)}}
			}
			must(kube.ResourceV1().ResourceClaims("default").Create(t.Context(), d, metav1.CreateOptions{}))(t)
		}
		claim("own", 1, false)
		claim("special", 2, true)
		c.quota("q", list("requests.example.com/gpu", "9", "requests.example.com/other", "9", "gpu.deviceclass.resource.k8s.io/devices", "9",
			"requests.deviceclass.resource.kubernetes.io/gpu", "9", "count/resourceclaims.resource.k8s.io", "9"))
		settle()
		c.want("q", list("requests.example.com/gpu", "3", "requests.example.com/other", "0", "gpu.deviceclass.resource.k8s.io/devices", "3",
			"requests.deviceclass.resource.kubernetes.io/gpu", "3", "count/resourceclaims.resource.k8s.io", "2"))
		// Another claim for the same pod is not paid for, and a class that names nothing stands for nothing.
		claim("third", 2, true)
		settle()
		c.want("q", list("requests.example.com/gpu", "5", "requests.example.com/other", "0", "gpu.deviceclass.resource.k8s.io/devices", "5",
			"requests.deviceclass.resource.kubernetes.io/gpu", "5", "count/resourceclaims.resource.k8s.io", "3"))
		looptest.Edit(c.server, "deviceclasses", "", "gpu", func(d *resourcev1.DeviceClass) { d.Spec.ExtendedResourceName = nil })
		settle()
		c.want("q", list("requests.example.com/gpu", "2", "requests.example.com/other", "0", "gpu.deviceclass.resource.k8s.io/devices", "5",
			"requests.deviceclass.resource.kubernetes.io/gpu", "0", "count/resourceclaims.resource.k8s.io", "3"))
	})
}
