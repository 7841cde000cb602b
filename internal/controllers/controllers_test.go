package controllers_test

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace/millrace/internal/controllers"
	"github.com/millrace/millrace/internal/controllers/internal/looptest"
	"github.com/millrace/millrace/internal/controllers/podgc"
	"github.com/millrace/millrace/internal/controllers/rootca"
	"github.com/millrace/millrace/internal/controllers/serviceaccount"
	"github.com/millrace/millrace/loop"
	"github.com/millrace/millrace/millracetest"
)

func TestNamesAreThoseOfKubernetes(t *testing.T) {
	all, _ := loop.Names(controllers.All(controllers.Options{}))
	want := []string{
		"bootstrap-signer-controller",
		"certificatesigningrequest-approving-controller",
		"certificatesigningrequest-cleaner-controller",
		"certificatesigningrequest-signing-controller",
		"clusterrole-aggregation-controller",
		"cronjob-controller",
		"daemonset-controller",
		"deployment-controller",
		"device-taint-eviction-controller",
		"disruption-controller",
		"endpoints-controller",
		"endpointslice-controller",
		"endpointslice-mirroring-controller",
		"ephemeral-volume-controller",
		"garbage-collector-controller",
		"horizontal-pod-autoscaler-controller",
		"job-controller",
		"kube-apiserver-serving-clustertrustbundle-publisher-controller",
		"legacy-serviceaccount-token-cleaner-controller",
		"local-volume-provisioner-controller", // our own
		"namespace-controller",
		"node-ipam-controller",
		"node-lifecycle-controller",
		"persistentvolume-attach-detach-controller",
		"persistentvolume-binder-controller",
		"persistentvolume-expander-controller",
		"persistentvolume-protection-controller",
		"persistentvolumeclaim-protection-controller",
		"pod-garbage-collector-controller",
		"podcertificaterequest-cleaner-controller",
		"replicaset-controller",
		"replicationcontroller-controller",
		"resourceclaim-controller",
		"resourcequota-controller",
		"root-ca-certificate-publisher-controller",
		"service-cidr-controller",
		"service-lb-controller", // our own, and off by default
		"serviceaccount-controller",
		"serviceaccount-token-controller",
		"statefulset-controller",
		"storage-version-migrator-controller",
		"taint-eviction-controller",
		"token-cleaner-controller",
		"ttl-after-finished-controller",
		"ttl-controller",
		"validatingadmissionpolicy-status-controller",
		"volumeattributesclass-protection-controller",
	}
	slices.Sort(all)
	if !slices.Equal(all, want) {
		t.Errorf("loops are %q", all)
	}
}

func TestFinishedPodsStayUpToTheThreshold(t *testing.T) {
	for threshold, stay := range map[int]int{0: 5, 2: 2, -1: 5} {
		synctest.Test(t, func(t *testing.T) {
			server := looptest.New(t, millracetest.API(t))
			clients := server.Clients()
			for i := range 5 {
				p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("pod-", i)}, Spec: corev1.PodSpec{Containers: looptest.Containers()}, Status: corev1.PodStatus{Phase: corev1.PodSucceeded}}
				looptest.Create(server, "pods", "default", p)
				time.Sleep(time.Second)
			}
			looptest.Start(t, clients, podgc.Options{Threshold: threshold}.Entry())
			time.Sleep(2 * time.Minute)
			pods := looptest.All[corev1.Pod](server, "pods")
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
		server := looptest.New(t, millracetest.API(t))
		clients := server.Clients()
		looptest.Start(t, clients, serviceaccount.Entry, rootca.Options{Certificates: []byte("PEM")}.Entry())
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
				looptest.Edit(server, "configmaps", "ns", "kube-root-ca.crt", func(cm *corev1.ConfigMap) { cm.Data["ca.crt"] = "forged" })
			},
		} {
			step()
			time.Sleep(time.Minute)
			if _, err := server.Kube.CoreV1().ServiceAccounts("ns").Get(t.Context(), "default", metav1.GetOptions{}); err != nil {
				t.Error(err)
			}
			if cm, err := server.Kube.CoreV1().ConfigMaps("ns").Get(t.Context(), "kube-root-ca.crt", metav1.GetOptions{}); err != nil || cm.Data["ca.crt"] != "PEM" {
				t.Errorf("config map %v, %v", cm, err)
			}
		}
	})
}

func TestPodsThatNobodyElseDeletesAreCollected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := looptest.New(t, millracetest.API(t))
		clients := server.Clients()
		if _, err := clients.Kube.CoreV1().Nodes().Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "alive"}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		pod := func(name, node string, edit func(*corev1.Pod)) {
			p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PodSpec{NodeName: node, Containers: looptest.Containers()}}
			edit(p)
			looptest.Create(server, "pods", "default", p)
		}
		pod("kept", "alive", func(*corev1.Pod) {})
		pod("finished", "alive", func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded })
		pod("orphan", "gone", func(p *corev1.Pod) { p.Finalizers = []string{"test/hold"} })
		pod("waiting", "", func(*corev1.Pod) {})
		looptest.Start(t, clients, podgc.Entry)
		time.Sleep(30 * time.Second)
		if n := len(looptest.All[corev1.Pod](server, "pods")); n != 4 {
			t.Errorf("%d pods: collected before the quarantine has ended", n)
		}
		time.Sleep(2 * time.Minute)
		var got []string
		for _, p := range looptest.All[corev1.Pod](server, "pods") {
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
