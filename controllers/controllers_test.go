package controllers_test

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace/millrace/controllers"
	"github.com/millrace/millrace/controllers/internal/testapi"
	"github.com/millrace/millrace/controllers/podgc"
	"github.com/millrace/millrace/controllers/rootca"
	"github.com/millrace/millrace/controllers/serviceaccount"
	"github.com/millrace/millrace/loop"
)

func TestNamesAreThoseOfKubernetes(t *testing.T) {
	all, _ := loop.Names(controllers.All(controllers.Options{}))
	want := []string{
		"deployment-controller", "endpoints-controller", "endpointslice-controller", "endpointslice-mirroring-controller", "garbage-collector-controller", "job-controller",
		"namespace-controller", "node-lifecycle-controller", "pod-garbage-collector-controller", "replicaset-controller",
		"replicationcontroller-controller", "resourcequota-controller",
		"root-ca-certificate-publisher-controller", "serviceaccount-controller", "taint-eviction-controller", "ttl-after-finished-controller",
	}
	slices.Sort(all)
	if !slices.Equal(all, want) {
		t.Errorf("loops are %q", all)
	}
}

func TestFinishedPodsStayUpToTheThreshold(t *testing.T) {
	for threshold, stay := range map[int]int{0: 5, 2: 2, -1: 5} {
		synctest.Test(t, func(t *testing.T) {
			server := testapi.New()
			clients := server.Clients()
			for i := range 5 {
				p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("pod-", i)}, Status: corev1.PodStatus{Phase: corev1.PodSucceeded}}
				if _, err := clients.Kube.CoreV1().Pods("default").Create(t.Context(), p, metav1.CreateOptions{}); err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Second)
			}
			testapi.Start(t, clients, podgc.Options{Threshold: threshold}.Entry())
			time.Sleep(2 * time.Minute)
			pods := testapi.All[corev1.Pod](server, "pods")
			if len(pods) != stay {
				t.Errorf("with a threshold of %d, %d of 5 stay", threshold, len(pods))
			}
			for _, p := range pods {
				if stay == 2 && p.Name != "pod-3" && p.Name != "pod-4" {
					t.Errorf("%s stayed, which was not among the youngest", p.Name)
				}
			}
		})
	}
}

func TestNamespaceHasItsAccountAndCertificates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := testapi.New()
		clients := server.Clients()
		testapi.Start(t, clients, serviceaccount.Entry, rootca.Entry([]byte("PEM")))
		if _, err := clients.Kube.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ns"}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		for _, step := range []func(){
			func() {},
			func() {
				_ = clients.Kube.CoreV1().ServiceAccounts("ns").Delete(t.Context(), "default", metav1.DeleteOptions{})
			},
			func() {
				_ = clients.Kube.CoreV1().ConfigMaps("ns").Delete(t.Context(), "kube-root-ca.crt", metav1.DeleteOptions{})
			},
			func() {
				testapi.Edit(server, "configmaps", "ns", "kube-root-ca.crt", func(cm *corev1.ConfigMap) { cm.Data["ca.crt"] = "forged" })
			},
		} {
			step()
			time.Sleep(time.Minute)
			accounts, maps := testapi.All[corev1.ServiceAccount](server, "serviceaccounts"), testapi.All[corev1.ConfigMap](server, "configmaps")
			if len(accounts) != 1 || accounts[0].Name != "default" {
				t.Errorf("accounts %v", accounts)
			}
			if len(maps) != 1 || maps[0].Name != "kube-root-ca.crt" || maps[0].Data["ca.crt"] != "PEM" {
				t.Errorf("config maps %v", maps)
			}
		}
	})
}

func TestPodsThatNobodyElseDeletesAreCollected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := testapi.New()
		clients := server.Clients()
		if _, err := clients.Kube.CoreV1().Nodes().Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "alive"}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		pod := func(name, node string, edit func(*corev1.Pod)) {
			p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PodSpec{NodeName: node}}
			edit(p)
			if _, err := clients.Kube.CoreV1().Pods("default").Create(t.Context(), p, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		pod("kept", "alive", func(*corev1.Pod) {})
		pod("finished", "alive", func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded })
		pod("orphan", "gone", func(p *corev1.Pod) { p.Finalizers = []string{"test/hold"} })
		pod("waiting", "", func(*corev1.Pod) {})
		pod("unwanted", "", func(*corev1.Pod) {})
		testapi.Edit(server, "pods", "default", "unwanted", func(p *corev1.Pod) { // no kubelet will ever end it
			now, grace := metav1.Now(), int64(30)
			p.DeletionTimestamp, p.DeletionGracePeriodSeconds = &now, &grace
		})
		testapi.Start(t, clients, podgc.Entry)
		time.Sleep(30 * time.Second)
		if n := len(testapi.All[corev1.Pod](server, "pods")); n != 4 { // all but the unwanted one
			t.Errorf("%d pods: collected before the quarantine has ended", n)
		}
		time.Sleep(2 * time.Minute)
		var got []string
		for _, p := range testapi.All[corev1.Pod](server, "pods") {
			got = append(got, p.Name)
			if p.Name == "orphan" && (p.DeletionTimestamp == nil || p.Status.Phase != corev1.PodFailed || p.Status.Conditions[0].Reason != "DeletionByPodGC") {
				t.Errorf("orphan %+v", p.Status)
			}
		}
		slices.Sort(got)
		if fmt.Sprint(got) != "[finished kept orphan waiting]" {
			t.Errorf("pods %v", got)
		}
	})
}
