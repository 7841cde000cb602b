package fairness_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/informer"
	"github.com/millrace/millrace/millracetest"
	"github.com/millrace/millrace/watch"
)

func start(t testing.TB, o millrace.Options) (*millrace.Cluster, *kubernetes.Clientset) {
	o.NoScheduler, o.Controllers = true, []string{}
	cluster := millracetest.Start(t, o)
	kube := millracetest.Clientset(t, cluster)
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "everybody-reads"}, Rules: []rbacv1.PolicyRule{{
		Verbs: []string{"get", "list"}, APIGroups: []string{""}, Resources: []string{"configmaps", "pods"},
	}}}
	if _, err := kube.RbacV1().ClusterRoles().Create(t.Context(), role, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	_, err := kube.RbacV1().ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: role.ObjectMeta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects: []rbacv1.Subject{{Kind: "Group", APIGroup: rbacv1.GroupName, Name: "system:authenticated"}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return cluster, kube
}

// client returns an HTTP client of a user.
func client(t testing.TB, c *millrace.Cluster, user string) (*http.Client, string) {
	t.Helper()
	config, err := c.User(user)
	if err != nil {
		t.Fatal(err)
	}
	h, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	return h, config.Host
}

// get reads a path, and returns the answer and its body.
func get(t testing.TB, h *http.Client, url string) (*http.Response, string) {
	t.Helper()
	answer, err := h.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer, string(text)
}

func level(name string, shares int32, limit flowcontrolv1.LimitResponse) *flowcontrolv1.PriorityLevelConfiguration {
	return &flowcontrolv1.PriorityLevelConfiguration{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: flowcontrolv1.PriorityLevelConfigurationSpec{
		Type: flowcontrolv1.PriorityLevelEnablementLimited, Limited: &flowcontrolv1.LimitedPriorityLevelConfiguration{NominalConcurrencyShares: &shares, LimitResponse: limit},
	}}
}

func schema(name, level, user string) *flowcontrolv1.FlowSchema {
	return &flowcontrolv1.FlowSchema{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: flowcontrolv1.FlowSchemaSpec{
		PriorityLevelConfiguration: flowcontrolv1.PriorityLevelConfigurationReference{Name: level}, MatchingPrecedence: 300,
		DistinguisherMethod: &flowcontrolv1.FlowDistinguisherMethod{Type: flowcontrolv1.FlowDistinguisherMethodByUserType},
		Rules: []flowcontrolv1.PolicyRulesWithSubjects{{
			Subjects:      []flowcontrolv1.Subject{{Kind: flowcontrolv1.SubjectKindUser, User: &flowcontrolv1.UserSubject{Name: user}}},
			ResourceRules: []flowcontrolv1.ResourcePolicyRule{{Verbs: []string{"*"}, APIGroups: []string{"*"}, Resources: []string{"*"}, ClusterScope: true, Namespaces: []string{"*"}}},
		}},
	}}
}

// until waits until a schema's level exists, or does not.
func until(t *testing.T, kube kubernetes.Interface, name string, dangling flowcontrolv1.ConditionStatus) *flowcontrolv1.FlowSchema {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	stream, err := informer.For(kube.FlowcontrolV1().FlowSchemas()).Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + name})
	if err != nil {
		t.Fatal(err)
	}
	last, err := watch.Until(ctx, stream, func(e watch.Event[*flowcontrolv1.FlowSchema]) (bool, error) {
		return slices.ContainsFunc(e.Object.Status.Conditions, func(c flowcontrolv1.FlowSchemaCondition) bool {
			return c.Type == flowcontrolv1.FlowSchemaConditionDangling && c.Status == dangling
		}), nil
	})
	if err != nil {
		t.Fatalf("%v; last seen: %+v", err, last.Object)
	}
	return last.Object
}

func TestAnswersTellToWhichFlowARequestBelonged(t *testing.T) {
	cluster, kube := start(t, millrace.Options{})
	made, err := kube.FlowcontrolV1().PriorityLevelConfigurations().Create(t.Context(), level("mine", 1, flowcontrolv1.LimitResponse{Type: flowcontrolv1.LimitResponseTypeReject}), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := kube.FlowcontrolV1().FlowSchemas().Create(t.Context(), schema("mine", "mine", "alice"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	s := until(t, kube, "mine", flowcontrolv1.ConditionFalse)
	alice, host := client(t, cluster, "alice")
	answer, _ := get(t, alice, host+"/api/v1/namespaces/default/pods")
	if got := answer.Header.Get("X-Kubernetes-PF-FlowSchema-UID"); got != string(s.UID) {
		t.Errorf("the schema is %q, expected %q", got, s.UID)
	}
	if got := answer.Header.Get("X-Kubernetes-PF-PriorityLevel-UID"); got != string(made.UID) {
		t.Errorf("the level is %q, expected %q", got, made.UID)
	}
	rest, err := kube.FlowcontrolV1().FlowSchemas().Get(t.Context(), "global-default", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	bob, host := client(t, cluster, "bob")
	if answer, _ = get(t, bob, host+"/api/v1/namespaces/default/pods"); answer.Header.Get("X-Kubernetes-PF-FlowSchema-UID") != string(rest.UID) {
		t.Errorf("another's schema is %q, expected %q", answer.Header.Get("X-Kubernetes-PF-FlowSchema-UID"), rest.UID)
	}
	if _, err := kube.FlowcontrolV1().FlowSchemas().Create(t.Context(), schema("lost", "nowhere", "bob"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	until(t, kube, "lost", flowcontrolv1.ConditionTrue)
	if answer, _ = get(t, bob, host+"/api/v1/namespaces/default/pods"); answer.Header.Get("X-Kubernetes-PF-FlowSchema-UID") != string(rest.UID) {
		t.Error("a schema without a level takes requests")
	}
}

func TestOperatorsSeeWhatIsGoingOn(t *testing.T) {
	cluster, kube := start(t, millrace.Options{})
	until(t, kube, "global-default", flowcontrolv1.ConditionFalse)
	h, err := rest.HTTPClientFor(cluster.Config())
	if err != nil {
		t.Fatal(err)
	}
	host := cluster.Config().Host
	for path, part := range map[string]string{
		"/debug/api_priority_and_fairness/dump_priority_levels": "workload-low",
		"/debug/api_priority_and_fairness/dump_queues":          "global-default",
		"/debug/api_priority_and_fairness/dump_requests":        "PriorityLevelName",
		"/metrics": `apiserver_flowcontrol_nominal_limit_seats{priority_level="workload-high"} 98`,
	} {
		if answer, text := get(t, h, host+path); answer.StatusCode != 200 || !strings.Contains(text, part) {
			t.Errorf("%s: %d %s", path, answer.StatusCode, text)
		}
	}
	bob, host := client(t, cluster, "bob")
	if answer, _ := get(t, bob, host+"/debug/api_priority_and_fairness/dump_requests"); answer.StatusCode != 403 {
		t.Errorf("anybody may see it: %d", answer.StatusCode)
	}
}

// sendMany keeps n requests of a user in flight until ctx ends.
func sendMany(ctx context.Context, t testing.TB, c *millrace.Cluster, user string, n int) *sync.WaitGroup {
	t.Helper()
	var all sync.WaitGroup
	for range 10 { // connections
		h, host := client(t, c, user)
		for range n / 10 {
			all.Go(func() {
				for ctx.Err() == nil {
					r, _ := http.NewRequestWithContext(ctx, http.MethodGet, host+"/api/v1/namespaces/default/configmaps", nil)
					if answer, err := h.Do(r); err == nil {
						_, _ = io.Copy(io.Discard, answer.Body)
						answer.Body.Close()
					}
				}
			})
		}
	}
	return &all
}

// BenchmarkGetBesideAFlood measures the p99 latency of a get, alone and while another client keeps 1,000 lists in
// flight.
func BenchmarkGetBesideAFlood(b *testing.B) {
	for _, others := range []int{0, 1000} {
		b.Run(fmt.Sprint("others=", others), func(b *testing.B) {
			cluster, kube := start(b, millrace.Options{})
			for i := range 200 {
				cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("c", i)}, Data: map[string]string{"k": strings.Repeat("x", 1000)}}
				if _, err := kube.CoreV1().ConfigMaps("default").Create(b.Context(), cm, metav1.CreateOptions{}); err != nil {
					b.Fatal(err)
				}
			}
			ctx, stop := context.WithCancel(b.Context())
			all := sendMany(ctx, b, cluster, "flood", others)
			defer func() { stop(); all.Wait() }()
			h, host := client(b, cluster, "quiet")
			get(b, h, host+"/api/v1/namespaces/default/configmaps/c1")
			var took []time.Duration
			for b.Loop() {
				began := time.Now()
				if answer, text := get(b, h, host+"/api/v1/namespaces/default/configmaps/c1"); answer.StatusCode != 200 {
					b.Fatalf("%d %s", answer.StatusCode, text)
				}
				took = append(took, time.Since(began))
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-µs")
			b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-µs")
		})
	}
}
