package millrace

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/millrace/millrace/internal/planes"
)

// host is a cluster that runs others.
type host struct {
	*Cluster
	t      *testing.T
	kube   kubernetes.Interface
	planes dynamic.ResourceInterface
}

func startHost(t *testing.T, data string) *host {
	t.Helper()
	c, err := Start(t.Context(), Options{Data: data, Planes: true, History: HistoryOptions{Age: time.Hour, Bytes: 1 << 30}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return &host{
		Cluster: c, t: t, kube: kubernetes.NewForConfigOrDie(c.Config()), planes: dynamic.NewForConfigOrDie(c.Config()).Resource(planes.GVR),
	}
}

// make makes a plane, and returns when it is ready.
func (h *host) make(name string, spec map[string]any) {
	h.t.Helper()
	o := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": planes.GVK.GroupVersion().String(), "kind": planes.Kind, "metadata": map[string]any{"name": name}, "spec": spec,
	}}
	if _, err := h.planes.Create(h.t.Context(), o, metav1.CreateOptions{}); err != nil {
		h.t.Fatal(err)
	}
	h.await(name, "Ready", func(o *unstructured.Unstructured) bool { return condition(o) == "True" })
}

// condition returns the status of the condition Ready.
func condition(o *unstructured.Unstructured) string {
	all, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
	for _, c := range all {
		if c := c.(map[string]any); c["type"] == "Ready" {
			return fmt.Sprint(c["status"])
		}
	}
	return ""
}

func phase(o *unstructured.Unstructured) string {
	s, _, _ := unstructured.NestedString(o.Object, "status", "phase")
	return s
}

// await waits until a plane's object is as wanted.
func (h *host) await(name, what string, is func(*unstructured.Unstructured) bool) {
	h.t.Helper()
	eventually(h.t, func() error {
		o, err := h.planes.Get(h.t.Context(), name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if !is(o) {
			return fmt.Errorf("%s is not %s: %v", name, what, o.Object["status"])
		}
		return nil
	})
}

// config returns the client configuration that the Secret of a plane has.
func (h *host) config(name string) *rest.Config {
	h.t.Helper()
	s, err := h.kube.CoreV1().Secrets(planes.Namespace).Get(h.t.Context(), planes.SecretName(name), metav1.GetOptions{})
	if err != nil {
		h.t.Fatal(err)
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(s.Data[planes.SecretKey])
	if err != nil {
		h.t.Fatal(err)
	}
	config.QPS = -1
	return config
}

func (h *host) client(name string) kubernetes.Interface {
	return kubernetes.NewForConfigOrDie(h.config(name))
}

// sleep puts a plane to sleep.
func (h *host) sleep(name string) {
	h.t.Helper()
	eventually(h.t, func() error {
		patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, planes.SleepAnnotation, time.Now().Format(time.RFC3339Nano))
		_, err := h.planes.Patch(h.t.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
		return err
	})
	h.await(name, "asleep", func(o *unstructured.Unstructured) bool { return phase(o) == planes.Asleep })
}

func eventually(t *testing.T, is func() error) {
	t.Helper()
	var err error
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if err = is(); err == nil {
			return
		}
	}
	t.Fatal(err)
}

func setMap(t *testing.T, kube kubernetes.Interface, name, value string) {
	t.Helper()
	maps := kube.CoreV1().ConfigMaps("default")
	m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{"key": value}}
	_, err := maps.Update(t.Context(), m, metav1.UpdateOptions{})
	if apierrors.IsNotFound(err) {
		_, err = maps.Create(t.Context(), m, metav1.CreateOptions{})
	}
	if err != nil {
		t.Fatal(err)
	}
}

func mapIn(t *testing.T, kube kubernetes.Interface, name string) string {
	t.Helper()
	m, err := kube.CoreV1().ConfigMaps("default").Get(t.Context(), name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return ""
	}
	if err != nil {
		t.Fatal(err)
	}
	return m.Data["key"]
}

func TestAPlaneIsAWholeClusterThatSharesNothingWithItsHostOrAnother(t *testing.T) {
	h := startHost(t, t.TempDir())
	h.make("red", nil)
	h.make("blue", nil)
	red, blue := h.client("red"), h.client("blue")
	setMap(t, red, "mine", "red")
	if got := mapIn(t, blue, "mine") + mapIn(t, h.kube, "mine"); got != "" {
		t.Errorf("another cluster has %q", got)
	}
	one := int32(1)
	web := map[string]string{"app": "web"}
	_, err := red.AppsV1().Deployments("default").Create(t.Context(), &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: appsv1.DeploymentSpec{Replicas: &one, Selector: &metav1.LabelSelector{MatchLabels: web}, Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: web}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "web"}}},
		}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, func() error {
		d, err := red.AppsV1().Deployments("default").Get(t.Context(), "web", metav1.GetOptions{})
		if err == nil && d.Status.ReadyReplicas != 1 {
			err = fmt.Errorf("the deployment has %d ready replicas", d.Status.ReadyReplicas)
		}
		return err
	})
	pods, err := red.CoreV1().Pods("default").List(t.Context(), metav1.ListOptions{})
	if err != nil || len(pods.Items) != 1 {
		t.Fatalf("%d pods, %v", len(pods.Items), err)
	}
	log, err := red.CoreV1().Pods("default").GetLogs(pods.Items[0].Name, &corev1.PodLogOptions{}).DoRaw(t.Context())
	if err != nil || !strings.Contains(string(log), "hollow") {
		t.Errorf("the log of its pod is %q, %v", log, err)
	}
	for name, client := range map[string]kubernetes.Interface{"host": h.kube, "blue": blue} {
		if pods, err := client.CoreV1().Pods("").List(t.Context(), metav1.ListOptions{}); err != nil || len(pods.Items) != 0 {
			t.Errorf("%s has %d pods, %v", name, len(pods.Items), err)
		}
	}
}

// get sends a request, and returns the code of the answer.
func get(t *testing.T, config *rest.Config, url string) int {
	t.Helper()
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	return answer.StatusCode
}

func TestOnlyThoseWhomAPlaneKnowsAreLetInAndWakeIt(t *testing.T) {
	h := startHost(t, t.TempDir())
	h.make("red", nil)
	h.make("blue", nil)
	at := h.URL() + "/clusters/red"
	nobody := &rest.Config{TLSClientConfig: rest.TLSClientConfig{Insecure: true}}
	strangers := map[string]*rest.Config{"nobody": nobody, "the host's administrator": h.Config(), "another plane's": h.config("blue")}
	forged := rest.CopyConfig(nobody)
	forged.BearerToken = "eyJhbGciOiJub25lIn0.eyJzdWIiOiJzeXN0ZW06c2VydmljZWFjY291bnQ6a3ViZS1zeXN0ZW06ZGVmYXVsdCJ9."
	strangers["who forges a token"] = forged
	for name, config := range strangers {
		if code := get(t, config, at+"/api/v1/secrets"); code != http.StatusUnauthorized && code != http.StatusForbidden {
			t.Errorf("%s gets %d from a plane that is awake", name, code)
		}
	}
	token, err := h.client("red").CoreV1().RESTClient().Post().AbsPath("/api/v1/namespaces/default/serviceaccounts/default/token").
		Body([]byte(`{"apiVersion":"authentication.k8s.io/v1","kind":"TokenRequest","spec":{}}`)).SetHeader("Content-Type", "application/json").Do(t.Context()).Raw()
	if err != nil {
		t.Fatal(err)
	}
	h.sleep("red")
	for name, config := range strangers {
		if code := get(t, config, at+"/version"); code != http.StatusUnauthorized {
			t.Errorf("%s gets %d from a plane that sleeps", name, code)
		}
	}
	if o, err := h.planes.Get(t.Context(), "red", metav1.GetOptions{}); err != nil || phase(o) != planes.Asleep {
		t.Fatalf("a stranger has woken the plane: %v, %v", o.Object["status"], err)
	}
	_, rest0, _ := strings.Cut(string(token), `"token":"`)
	word, _, _ := strings.Cut(rest0, `"`)
	known := rest.CopyConfig(nobody)
	known.BearerToken = word
	if code := get(t, known, at+"/version"); code != http.StatusOK {
		t.Errorf("a service account of the plane gets %d", code)
	}
	h.await("red", "awake", func(o *unstructured.Unstructured) bool { return phase(o) == planes.Awake })
	if code := get(t, known, h.URL()+"/clusters/blue/version"); code == http.StatusOK && get(t, known, h.URL()+"/clusters/blue/api/v1/pods") == http.StatusOK {
		t.Error("a token of one plane is good in another")
	}
	if code := get(t, h.Config(), h.URL()+"/clusters/green/version"); code != http.StatusNotFound {
		t.Errorf("a plane that is not there: %d", code)
	}
}

func TestAPlaneSleepsAndItsCallersNoticeNothing(t *testing.T) {
	data := t.TempDir()
	h := startHost(t, data)
	h.make("red", nil)
	red := h.client("red")
	setMap(t, red, "mine", "1")
	h.sleep("red")
	if got := mapIn(t, red, "mine"); got != "1" {
		t.Errorf("after a sleep the plane has %q", got)
	}
	watching, cancel := context.WithCancel(t.Context())
	defer cancel()
	if _, err := red.CoreV1().ConfigMaps("default").Watch(watching, metav1.ListOptions{}); err != nil {
		t.Fatal(err)
	}
	patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:"now"}}}`, planes.SleepAnnotation)
	if _, err := h.planes.Patch(t.Context(), "red", types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	h.await("red", "in use", func(o *unstructured.Unstructured) bool {
		return strings.Contains(fmt.Sprint(o.Object["status"]), "in use")
	})
	cancel()
	h.await("red", "asleep", func(o *unstructured.Unstructured) bool { return phase(o) == planes.Asleep })
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
	again := startHost(t, data)
	again.await("red", "asleep at the host's new address", func(o *unstructured.Unstructured) bool {
		endpoint, _, _ := unstructured.NestedString(o.Object, "status", "endpoint")
		return phase(o) == planes.Asleep && strings.HasPrefix(endpoint, again.URL())
	})
	if got := mapIn(t, again.client("red"), "mine"); got != "1" {
		t.Errorf("after a new start of the host the plane has %q", got)
	}
}

func TestAForkIsThePlaneAtAMomentAndTheTwoPartThere(t *testing.T) {
	h := startHost(t, t.TempDir())
	h.make("prod", nil)
	prod := h.client("prod")
	setMap(t, prod, "mine", "before")
	m, err := prod.CoreV1().ConfigMaps("default").Get(t.Context(), "mine", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	setMap(t, prod, "mine", "after")
	h.make("now", map[string]any{"from": map[string]any{"name": "prod"}})
	h.make("then", map[string]any{"from": map[string]any{"name": "prod", "at": m.ResourceVersion}, "paused": true})
	now, then := h.client("now"), h.client("then")
	if a, b := mapIn(t, now, "mine"), mapIn(t, then, "mine"); a != "after" || b != "before" {
		t.Errorf("the forks have %q and %q", a, b)
	}
	setMap(t, then, "mine", "then")
	setMap(t, prod, "mine", "prod")
	if got := mapIn(t, now, "mine") + mapIn(t, then, "mine") + mapIn(t, prod, "mine"); got != "afterthenprod" {
		t.Errorf("after they parted the planes have %q", got)
	}
	if code := get(t, h.config("prod"), h.URL()+"/clusters/now/api/v1/pods"); code != http.StatusUnauthorized && code != http.StatusForbidden {
		t.Errorf("a certificate of the origin is worth %d in a fork", code)
	}
}

func TestADeletedPlaneLeavesNothingBehind(t *testing.T) {
	data := t.TempDir()
	h := startHost(t, data)
	h.make("red", nil)
	setMap(t, h.client("red"), "mine", "1")
	if err := h.planes.Delete(t.Context(), "red", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() error {
		_, err := h.planes.Get(t.Context(), "red", metav1.GetOptions{})
		_, secret := h.kube.CoreV1().Secrets(planes.Namespace).Get(t.Context(), planes.SecretName("red"), metav1.GetOptions{})
		if !apierrors.IsNotFound(err) || !apierrors.IsNotFound(secret) {
			return fmt.Errorf("still there: %w, %w", err, secret)
		}
		return nil
	})
	if left, err := os.ReadDir(filepath.Join(data, "planes")); err != nil || len(left) != 0 {
		t.Errorf("left is %v, %v", left, err)
	}
	h.make("red", nil)
	if got := mapIn(t, h.client("red"), "mine"); got != "" {
		t.Errorf("a new plane of the same name has %q", got)
	}
}

func TestAPlaneWithLimitsRefusesWhatIsBeyond(t *testing.T) {
	h := startHost(t, t.TempDir())
	h.make("small", map[string]any{"limits": map[string]any{"objects": int64(1)}})
	small := h.client("small")
	_, err := small.CoreV1().ConfigMaps("default").Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "more"}}, metav1.CreateOptions{})
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "exceeded the limit of this control plane: 1 objects") {
		t.Errorf("one object too many: %v", err)
	}
	if err := small.CoreV1().Namespaces().Delete(t.Context(), "default", metav1.DeleteOptions{}); err != nil && !apierrors.IsForbidden(err) {
		t.Errorf("a delete: %v", err)
	}
	patch := []byte(`{"spec":{"limits":{"objects":100000,"requests":1}}}`)
	if _, err := h.planes.Patch(t.Context(), "small", types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() error {
		_, err := small.CoreV1().ConfigMaps("default").Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "more"}}, metav1.CreateOptions{})
		return err
	})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	w, err := small.CoreV1().ConfigMaps("default").Watch(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	if code := get(t, h.config("small"), h.URL()+"/clusters/small/version"); code != http.StatusTooManyRequests {
		t.Errorf("one request too many: %d", code)
	}
}

func TestAPlaneWakesWhenACronJobIsDue(t *testing.T) {
	h := startHost(t, t.TempDir())
	h.make("red", nil)
	pod := corev1.PodTemplateSpec{Spec: corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "c", Image: "i"}}}}
	job := &batchv1.CronJob{ObjectMeta: metav1.ObjectMeta{Name: "often"}, Spec: batchv1.CronJobSpec{
		Schedule: "* * * * *", JobTemplate: batchv1.JobTemplateSpec{Spec: batchv1.JobSpec{Template: pod}},
	}}
	if _, err := h.client("red").BatchV1().CronJobs("default").Create(t.Context(), job, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() error { // the loop has seen it
		h.sleep("red")
		o, err := h.planes.Get(t.Context(), "red", metav1.GetOptions{})
		if err != nil {
			return err
		}
		at, _, _ := unstructured.NestedString(o.Object, "status", "wakesAt")
		if wakes, err := time.Parse(time.RFC3339, at); err != nil || time.Until(wakes) > time.Minute {
			mapIn(t, h.client("red"), "awake")
			return fmt.Errorf("the plane says that it wakes at %q", at)
		}
		return nil
	})
}

func TestAPlaneOpensNoConnectionIfItMustNot(t *testing.T) {
	h := startHost(t, t.TempDir())
	h.make("red", map[string]any{"outward": false})
	red := h.client("red")
	port, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer port.Close()
	go func() {
		if conn, err := port.Accept(); err == nil {
			t.Errorf("somebody connects: %v", conn.RemoteAddr())
			conn.Close()
		}
	}()
	url, fail := "https://"+port.Addr().String()+"/", admissionv1.Fail
	none := admissionv1.SideEffectClassNone
	_, err = red.AdmissionregistrationV1().ValidatingWebhookConfigurations().Create(t.Context(), &admissionv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "outside"}, Webhooks: []admissionv1.ValidatingWebhook{{
			Name: "outside.example.com", ClientConfig: admissionv1.WebhookClientConfig{URL: &url}, FailurePolicy: &fail, SideEffects: &none,
			AdmissionReviewVersions: []string{"v1"}, Rules: []admissionv1.RuleWithOperations{{
				Operations: []admissionv1.OperationType{admissionv1.Create},
				Rule:       admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"configmaps"}},
			}},
		}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 20 { // it takes a moment until a configuration counts
		setMap(t, red, fmt.Sprint("map-", i), "1")
	}
	if code := get(t, h.config("red"), h.URL()+"/clusters/red/debug/pprof/goroutine"); code != http.StatusNotFound {
		t.Errorf("a profile of the whole process: %d", code)
	}
}
