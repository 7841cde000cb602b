package controllers_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/millrace/millrace/internal/controllers"
	"github.com/millrace/millrace/internal/controllers/internal/looptest"
	"github.com/millrace/millrace/millracetest"
)

// All loops run in one process that crashes at any of its writes. Watches are cut, delayed or expired, users change
// their minds, nodes fall silent. In the end exactly the declared objects exist, and nothing is left of deleted ones.
func TestWhateverHappensAllLoopsTogetherConverge(t *testing.T) {
	for seed := range uint64(3) {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { chaos(t, seed) })
		})
	}
}

// users declares objects and remembers them.
type users struct {
	*testing.T
	server   *looptest.Server
	kube     kubernetes.Interface
	random   *rand.Rand
	declared map[string]map[string]int32 // namespace, deployment, replicas
	jobs     map[string]int32            // namespace/name, completions
	silent   map[int]bool                // nodes
}

const nodes = 3

func chaos(t *testing.T, seed uint64) {
	server := looptest.New(t, millracetest.API(t))
	u := &users{
		T: t, server: server, kube: server.Clients().Kube, random: rand.New(rand.NewPCG(seed, 1)),
		declared: map[string]map[string]int32{}, jobs: map[string]int32{}, silent: map[int]bool{},
	}
	u.prepare()
	lives := looptest.StartLives(t, server, rand.New(rand.NewPCG(seed, 2)), controllers.All(controllers.Options{RootCA: []byte("PEM")})...)
	pretend := &looptest.Nodes{Server: server, Count: nodes, Settle: func(p *corev1.Pod) {
		if p.Labels["job-name"] != "" {
			p.Status.Phase = corev1.PodSucceeded
		}
	}}
	looptest.Run(t, server.Clients(), pretend)
	for range 60 {
		u.act()
		u.pass(time.Duration(u.random.IntN(3000)) * time.Millisecond)
	}
	server.HoldWatches(false)
	clear(u.silent)
	if lives.Calm() == 0 {
		t.Error("nothing crashed: the test shows nothing")
	}
	u.pass(20 * time.Minute)
	u.check()
}

func (u *users) ok(err error) {
	u.Helper()
	if err != nil {
		u.Fatal(err)
	}
}

func (u *users) prepare() {
	for i := range nodes {
		name := fmt.Sprint("node-", i)
		looptest.Create(u.server, "nodes", "", &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Status:     corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}},
		})
		_, err := u.kube.CoordinationV1().Leases("kube-node-lease").Create(u.Context(), &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
		u.ok(err)
	}
	for _, ns := range []string{"a", "b", "c"} {
		u.found(ns)
	}
}

// found makes a namespace with a quota.
func (u *users) found(ns string) {
	if _, err := u.kube.CoreV1().Namespaces().Create(u.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}}, metav1.CreateOptions{}); err != nil {
		return // it is still being deleted
	}
	u.declared[ns] = map[string]int32{}
	_, err := u.kube.CoreV1().ResourceQuotas(ns).Create(u.Context(), &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Name: "q"}, Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{"pods": resource.MustParse("100")}},
	}, metav1.CreateOptions{})
	u.ok(err)
}

// pass lets time pass. Nodes that are not silent renew their leases and their pods' readiness.
func (u *users) pass(d time.Duration) {
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(min(10*time.Second, time.Until(end))) {
		for i := range nodes {
			if u.silent[i] {
				continue
			}
			now, name := metav1.NowMicro(), fmt.Sprint("node-", i)
			looptest.Edit(u.server, "leases", "kube-node-lease", name, func(l *coordinationv1.Lease) { l.Spec.RenewTime = &now })
			looptest.Edit(u.server, "nodes", "", name, func(n *corev1.Node) { n.Status.Conditions[0].Status = corev1.ConditionTrue })
		}
		for _, p := range looptest.All[corev1.Pod](u.server, "pods") {
			if i, _ := strconv.Atoi(strings.TrimPrefix(p.Spec.NodeName, "node-")); !u.silent[i] && readiness(p) == corev1.ConditionFalse {
				looptest.Edit(u.server, "pods", p.Namespace, p.Name, beReady)
			}
		}
	}
}

// readiness returns the status of a pod's Ready condition.
func readiness(p *corev1.Pod) corev1.ConditionStatus {
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status
		}
	}
	return ""
}

func beReady(p *corev1.Pod) {
	for i := range p.Status.Conditions {
		if p.Status.Conditions[i].Type == corev1.PodReady {
			p.Status.Conditions[i].Status = corev1.ConditionTrue
		}
	}
}

func (u *users) act() {
	ns := string(rune('a' + u.random.IntN(3)))
	if u.declared[ns] == nil {
		u.found(ns)
		return
	}
	name := fmt.Sprint("app", u.random.IntN(2))
	switch u.random.IntN(14) {
	case 0, 1, 2, 3:
		u.declare(ns, name, int32(u.random.IntN(5)))
	case 4:
		u.remove(ns, name)
	case 5:
		u.work(ns, int32(1+u.random.IntN(4)))
	case 6:
		u.ok(u.kube.CoreV1().Namespaces().Delete(u.Context(), ns, metav1.DeleteOptions{}))
		u.declared[ns] = nil
		maps.DeleteFunc(u.jobs, func(key string, _ int32) bool { return key[:1] == ns })
	case 7:
		_ = u.kube.CoreV1().ServiceAccounts(ns).Delete(u.Context(), "default", metav1.DeleteOptions{}) // it may not exist
	case 8:
		_ = u.kube.CoreV1().ConfigMaps(ns).Delete(u.Context(), "kube-root-ca.crt", metav1.DeleteOptions{})
	case 9:
		if pods := looptest.All[corev1.Pod](u.server, "pods"); len(pods) > 0 {
			p := pods[u.random.IntN(len(pods))]
			if p.Labels["job-name"] == "" {
				_ = u.kube.CoreV1().Pods(p.Namespace).Delete(u.Context(), p.Name, metav1.DeleteOptions{})
			}
		}
	case 10:
		node := u.random.IntN(nodes)
		u.silent[node] = !u.silent[node]
		u.pass(time.Minute)
	case 11:
		u.server.DropWatches()
	case 12:
		u.server.Compact()
	case 13:
		u.server.HoldWatches(u.random.IntN(2) == 0)
	}
}

// declare makes or scales a Deployment with a Service and a ConfigMap.
func (u *users) declare(ns, name string, replicas int32) {
	if _, there := u.declared[ns][name]; there {
		looptest.Edit(u.server, "deployments", ns, name, func(d *appsv1.Deployment) {
			d.Spec.Replicas = &replicas
			d.Spec.Template.Spec.Containers[0].Image = fmt.Sprint("image:", u.random.IntN(2))
		})
		u.declared[ns][name] = replicas
		return
	}
	labels := map[string]string{"app": name}
	d, err := u.kube.AppsV1().Deployments(ns).Create(u.Context(), &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: labels},
			Strategy: appsv1.DeploymentStrategy{Type: appsv1.RecreateDeploymentStrategyType},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "image:0"}}}},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		return // the old one is still being deleted
	}
	u.declared[ns][name] = replicas
	owner := []metav1.OwnerReference{*metav1.NewControllerRef(d, appsv1.SchemeGroupVersion.WithKind("Deployment"))}
	_, _ = u.kube.CoreV1().Services(ns).Create(u.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       corev1.ServiceSpec{Selector: labels, Ports: []corev1.ServicePort{{Port: 80}}},
	}, metav1.CreateOptions{}) // it may exist
	_, err = u.kube.CoreV1().ConfigMaps(ns).Create(u.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: name + "-", OwnerReferences: owner}}, metav1.CreateOptions{})
	u.ok(err)
}

func (u *users) remove(ns, name string) {
	if _, there := u.declared[ns][name]; !there {
		return
	}
	how := metav1.DeletePropagationBackground
	if u.random.IntN(2) == 0 {
		how = metav1.DeletePropagationForeground
	}
	u.ok(u.kube.AppsV1().Deployments(ns).Delete(u.Context(), name, metav1.DeleteOptions{PropagationPolicy: &how}))
	delete(u.declared[ns], name)
}

// work makes a Job.
func (u *users) work(ns string, completions int32) {
	name, mode, limit := fmt.Sprint("job", len(u.jobs)), batchv1.NonIndexedCompletion, int32(6)
	job, err := u.kube.BatchV1().Jobs(ns).Create(u.Context(), &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{GenerateName: name + "-"},
		Spec: batchv1.JobSpec{
			Parallelism: &completions, Completions: &completions, BackoffLimit: &limit, CompletionMode: &mode,
			Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever, Containers: looptest.Containers()}},
		},
	}, metav1.CreateOptions{})
	u.ok(err)
	u.jobs[ns+"/"+job.Name] = completions
}

// check compares the objects with what was declared.
func (u *users) check() {
	u.nothingOfWhatIsGone()
	for _, ns := range slices.Sorted(maps.Keys(u.declared)) {
		if u.declared[ns] != nil {
			u.furnished(ns)
		}
		for name, replicas := range u.declared[ns] {
			u.asDeclared(ns, name, int(replicas))
		}
	}
	for key, completions := range u.jobs {
		for _, j := range looptest.All[batchv1.Job](u.server, "jobs") {
			if j.Namespace+"/"+j.Name == key && (j.Status.Succeeded < completions || j.Status.CompletionTime == nil) {
				u.Errorf("job %s: %+v", key, j.Status)
			}
		}
	}
}

func (u *users) nothingOfWhatIsGone() {
	there := map[string]bool{"default": true, "kube-node-lease": true, "kube-system": true, "kube-public": true}
	for _, ns := range looptest.All[corev1.Namespace](u.server, "namespaces") {
		there[ns.Name] = true
		if u.declared[ns.Name] == nil && !strings.HasPrefix(ns.Name, "kube-") && ns.Name != "default" {
			u.Errorf("namespace %s is still there: %+v", ns.Name, ns.Status)
		}
	}
	lost := func(what string, m metav1.ObjectMeta) {
		if !there[m.Namespace] {
			u.Errorf("%s %s is left in %s, which is gone", what, m.Name, m.Namespace)
		}
		for _, o := range m.OwnerReferences {
			if d, ok := u.declared[m.Namespace][o.Name]; o.Kind == "Deployment" && !ok {
				u.Errorf("%s %s/%s belongs to %s, which is gone (%d)", what, m.Namespace, m.Name, o.Name, d)
			}
		}
	}
	for _, o := range looptest.All[corev1.Pod](u.server, "pods") {
		lost("pod", o.ObjectMeta)
	}
	for _, o := range looptest.All[corev1.ConfigMap](u.server, "configmaps") {
		lost("config map", o.ObjectMeta)
	}
	for _, o := range looptest.All[appsv1.ReplicaSet](u.server, "replicasets") {
		lost("replica set", o.ObjectMeta)
	}
	for _, o := range looptest.All[discoveryv1.EndpointSlice](u.server, "endpointslices") {
		lost("slice", o.ObjectMeta)
	}
}

// furnished checks the default objects of a namespace, and its quota.
func (u *users) furnished(ns string) {
	if _, err := u.kube.CoreV1().ServiceAccounts(ns).Get(u.Context(), "default", metav1.GetOptions{}); err != nil {
		u.Error(err)
	}
	if cm, err := u.kube.CoreV1().ConfigMaps(ns).Get(u.Context(), "kube-root-ca.crt", metav1.GetOptions{}); err != nil || cm.Data["ca.crt"] != "PEM" {
		u.Error(cm, err)
	}
	q, err := u.kube.CoreV1().ResourceQuotas(ns).Get(u.Context(), "q", metav1.GetOptions{})
	u.ok(err)
	running := int64(0)
	for _, p := range looptest.All[corev1.Pod](u.server, "pods") {
		if p.Namespace == ns && p.Status.Phase != corev1.PodSucceeded && p.Status.Phase != corev1.PodFailed {
			running++
		}
	}
	if used := q.Status.Used["pods"]; used.Value() != running {
		u.Errorf("the quota of %s says that %s pods are used, and there are %d", ns, used.String(), running)
	}
}

// asDeclared checks the pods of a Deployment and the endpoints of its Service.
func (u *users) asDeclared(ns, name string, replicas int) {
	ready := map[string]bool{}
	for _, p := range looptest.All[corev1.Pod](u.server, "pods") {
		if p.Namespace != ns || p.Labels["app"] != name || p.DeletionTimestamp != nil {
			continue
		}
		if len(p.OwnerReferences) != 1 || readiness(p) != corev1.ConditionTrue {
			u.Errorf("pod %s/%s: %v %+v", ns, p.Name, p.OwnerReferences, p.Status)
		}
		ready[p.Status.PodIP] = true
	}
	for _, d := range looptest.All[appsv1.Deployment](u.server, "deployments") {
		if d.Namespace == ns && d.Name == name && (int(d.Status.AvailableReplicas) != replicas || int(d.Status.Replicas) != replicas) {
			u.Errorf("%s/%s says %+v", ns, name, d.Status)
		}
	}
	if len(ready) != replicas {
		u.Errorf("%s/%s has %d pods, want %d", ns, name, len(ready), replicas)
	}
	var served []string
	for _, slice := range looptest.All[discoveryv1.EndpointSlice](u.server, "endpointslices") {
		for _, e := range slice.Endpoints {
			if slice.Namespace == ns && slice.Labels[discoveryv1.LabelServiceName] == name && *e.Conditions.Ready {
				served = append(served, e.Addresses...)
			}
		}
	}
	var subsets []string
	for _, e := range looptest.All[corev1.Endpoints](u.server, "endpoints") {
		for _, s := range e.Subsets {
			for _, a := range s.Addresses {
				if e.Namespace == ns && e.Name == name {
					subsets = append(subsets, a.IP)
				}
			}
		}
	}
	want := slices.Sorted(maps.Keys(ready))
	for what, has := range map[string][]string{"slices": served, "endpoints": subsets} {
		if slices.Sort(has); !slices.Equal(has, want) {
			u.Errorf("the %s of %s/%s are %v, want %v", what, ns, name, has, want)
		}
	}
}
