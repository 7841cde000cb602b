package millrace_test

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/cause"
	"github.com/millrace/millrace/internal/server/apiserver"
)

func withCauses(t *testing.T, data string) *millrace.Cluster {
	return start(t, millrace.Options{Data: data, Nodes: 2, History: millrace.HistoryOptions{Age: time.Hour, Bytes: 1 << 30}})
}

// question sends a question about changes.
func question(t *testing.T, kube kubernetes.Interface, path string, into any) {
	t.Helper()
	b, err := kube.CoreV1().RESTClient().Get().RequestURI(path).Do(t.Context()).Raw()
	if err != nil {
		t.Fatalf("%s: %v: %s", path, err, b)
	}
	if err := json.Unmarshal(b, into); err != nil {
		t.Fatal(err)
	}
}

// deploy makes a deployment, and returns one of its pods once that is ready.
func deploy(t *testing.T, kube kubernetes.Interface, name string) *corev1.Pod {
	t.Helper()
	labels := map[string]string{"app": name}
	replicas := int32(2)
	_, err := kube.AppsV1().Deployments("default").Create(t.Context(), &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: appsv1.DeploymentSpec{Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "a", Image: "a"}}},
		}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	w, err := kube.CoreV1().Pods("default").Watch(t.Context(), metav1.ListOptions{LabelSelector: "app=" + name})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	for e := range w.ResultChan() {
		if pod, ok := e.Object.(*corev1.Pod); ok && pod.Status.Phase == corev1.PodRunning {
			return pod
		}
	}
	t.Fatal("the watch has ended")
	return nil
}

// steps are who made the changes of a chain, and what they changed, the oldest first.
func steps(chain *apiserver.CauseChain) (all []string) {
	for _, h := range slices.Backward(chain.Items) {
		who := h.User
		if h.Cause != nil {
			who = h.Cause.Loop
		}
		if h.Hidden {
			who = "hidden"
		}
		all = append(all, strings.TrimSpace(who+" "+strings.ToLower(h.Type)+" "+h.Resource))
	}
	return all
}

func TestAPodTellsEachStepFromTheDeploymentToItsContainers(t *testing.T) {
	data := t.TempDir()
	c := withCauses(t, data)
	config := rest.CopyConfig(c.Config())
	config.Impersonate.UserName, config.Impersonate.Groups = "alice", []string{"system:masters"}
	pod := deploy(t, kubernetes.NewForConfigOrDie(config), "web")
	want := []string{
		"alice added deployments.apps",
		"deployment-controller added replicasets.apps",
		"replicaset-controller added pods",
		"default-scheduler modified pods",
		"kubelet of " + pod.Spec.NodeName + " modified pods",
	}
	why := func(c *millrace.Cluster) {
		t.Helper()
		var chain apiserver.CauseChain
		question(t, clientset(t, c), "/why/api/v1/namespaces/default/pods/"+pod.Name, &chain)
		got := slices.Compact(steps(&chain)) // a slow kubelet reports in two steps
		if !slices.Equal(got, want) || chain.Ends != "" {
			t.Errorf("it tells\n%s\n%s", strings.Join(got, "\n"), chain.Ends)
		}
		for i, h := range chain.Items[:len(chain.Items)-1] {
			if origin := h.Cause.Changes[0]; origin.Revision != chain.Items[i+1].Revision || origin.Name != chain.Items[i+1].Name {
				t.Errorf("%s is said to follow from %+v, and the chain goes on with %s", h.Revision, origin, chain.Items[i+1].Revision)
			}
		}
	}
	why(c)
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	why(withCauses(t, data))
}

func TestTheEffectsOfADeploymentAreAllThatFollowedFromIt(t *testing.T) {
	c := withCauses(t, t.TempDir())
	kube := clientset(t, c)
	deploy(t, kube, "web")
	deploy(t, kube, "other")
	var list apiserver.EffectList
	question(t, kube, "/effects/apis/apps/v1/namespaces/default/deployments/web", &list)
	count := map[string]int{}
	for _, e := range list.Items {
		if strings.HasPrefix(e.Name, "other") {
			t.Errorf("%s of another deployment is among them", e.Name)
		}
		if e.Type == "ADDED" {
			count[e.Resource]++
		}
	}
	if count["deployments.apps"] != 1 || count["replicasets.apps"] != 1 || count["pods"] != 2 || list.More || list.Hidden > 0 {
		t.Errorf("it has set off %v (more: %t, hidden: %d)", count, list.More, list.Hidden)
	}
	if first := list.Items[0]; first.Because != "" || first.Resource != "deployments.apps" || first.Type != "ADDED" {
		t.Errorf("it begins with %+v", first)
	}
}

func TestAChainHidesWhatItsReaderMayNotRead(t *testing.T) {
	c := withCauses(t, t.TempDir())
	kube := clientset(t, c)
	pod := deploy(t, kube, "web")
	role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: "pods"}, Rules: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"get"}}}}
	if _, err := kube.RbacV1().Roles("default").Create(t.Context(), role, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	binding := &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "bob"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "pods"},
		Subjects: []rbacv1.Subject{{Kind: "User", APIGroup: rbacv1.GroupName, Name: "bob"}}}
	if _, err := kube.RbacV1().RoleBindings("default").Create(t.Context(), binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	config := rest.CopyConfig(c.Config())
	config.Impersonate.UserName = "bob"
	bob := kubernetes.NewForConfigOrDie(config)

	var chain apiserver.CauseChain
	question(t, bob, "/why/api/v1/namespaces/default/pods/"+pod.Name, &chain)
	want := []string{"hidden", "hidden", "replicaset-controller added pods", "default-scheduler modified pods", "kubelet of " + pod.Spec.NodeName + " modified pods"}
	if got := steps(&chain); !slices.Equal(got, want) {
		t.Errorf("bob is told %q", got)
	}
	b, _ := json.Marshal(chain)
	for _, secret := range []string{`"replicasets.apps"`, `"deployments.apps"`, "deployment-controller"} {
		if strings.Contains(string(b), secret) {
			t.Errorf("bob is told of %s", secret)
		}
	}
	for _, path := range []string{"/why/apis/apps/v1/namespaces/default/deployments/web", "/effects/apis/apps/v1/namespaces/default/deployments/web"} {
		var code int
		bob.CoreV1().RESTClient().Get().AbsPath(path).Do(t.Context()).StatusCode(&code)
		if code != http.StatusForbidden {
			t.Errorf("%s: bob gets %d", path, code)
		}
	}
}

func TestNothingIsBelievedThatHasNotHappened(t *testing.T) {
	c := withCauses(t, t.TempDir())
	kube := clientset(t, c)
	real := setMap(t, kube, "real", "1")
	config := rest.CopyConfig(c.Config())
	config.Wrap(cause.Transport)
	liar := kubernetes.NewForConfigOrDie(config)
	for name, by := range map[string]cause.Change{
		"another":   cause.At("secrets", "default", "real", real),
		"elsewhere": cause.At("configmaps", "kube-system", "real", real),
		"later":     cause.At("configmaps", "default", "real", "99999999"),
	} {
		ctx := cause.With(t.Context(), cause.Cause{Loop: "liar", Changes: []cause.Change{by}, Count: 1})
		m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if _, err := liar.CoreV1().ConfigMaps("default").Create(ctx, m, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		var chain apiserver.CauseChain
		question(t, kube, "/why/api/v1/namespaces/default/configmaps/"+name, &chain)
		if len(chain.Items) != 1 || chain.Ends == "" {
			t.Errorf("%s: it tells %q, and ends with %q", name, steps(&chain), chain.Ends)
		}
	}
	ctx := cause.With(t.Context(), cause.Cause{Loop: "honest", Changes: []cause.Change{cause.At("configmaps", "default", "real", real)}, Count: 1})
	if _, err := liar.CoreV1().ConfigMaps("default").Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "true"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	var chain apiserver.CauseChain
	question(t, kube, "/why/api/v1/namespaces/default/configmaps/true", &chain)
	if len(chain.Items) != 2 || chain.Items[1].Revision != real {
		t.Errorf("it tells %q", steps(&chain))
	}
}

func TestACauseThatIsNoneChangesNothing(t *testing.T) {
	c := withCauses(t, t.TempDir())
	kube := clientset(t, c)
	for name, header := range map[string]string{"malformed": "%%%", "long": "loop=" + strings.Repeat("x", 10<<10)} {
		m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}
		err := kube.CoreV1().RESTClient().Post().AbsPath("/api/v1/namespaces/default/configmaps").SetHeader(cause.Header, header).Body(m).Do(context.Background()).Error()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		var chain apiserver.CauseChain
		question(t, kube, "/why/api/v1/namespaces/default/configmaps/"+name, &chain)
		if len(chain.Items) != 1 || chain.Items[0].Cause != nil {
			t.Errorf("%s: it tells %+v", name, chain)
		}
	}
	var code int
	kube.CoreV1().RESTClient().Get().AbsPath("/why/api/v1/namespaces/default/configmaps").Do(t.Context()).StatusCode(&code)
	if code != http.StatusNotFound {
		t.Errorf("why of a collection: %d", code)
	}
	kube.CoreV1().RESTClient().Get().AbsPath("/why/api/v1/namespaces/default/configmaps/missing").Do(t.Context()).StatusCode(&code)
	if code != http.StatusNotFound {
		t.Errorf("why of what never was: %d", code)
	}
	kube.CoreV1().RESTClient().Get().AbsPath("/why/api/v1/namespaces/default/configmaps/long").Param("at", "x").Do(t.Context()).StatusCode(&code)
	if code != http.StatusBadRequest {
		t.Errorf("at no revision: %d", code)
	}
}
