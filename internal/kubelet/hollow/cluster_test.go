package hollow

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/millrace/millrace/loop"
)

// cluster is a set of hollow nodes with a fake API.
type cluster struct {
	t    *testing.T
	kube *fake.Clientset
}

// inCluster runs a test in a synctest bubble, with registered hollow nodes.
func inCluster(t *testing.T, o Options, test func(*testing.T, *cluster)) {
	synctest.Test(t, func(t *testing.T) {
		kube := fake.NewClientset()
		clients := loop.ClientsFor(kube)
		o.Clients = clients
		n, err := New(o)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		go func() { ended <- loop.Run(ctx, clients, n) }()
		defer func() {
			cancel()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}()
		synctest.Wait()
		test(t, &cluster{t, kube})
	})
}

func (c *cluster) create(name string, edit ...func(*corev1.Pod)) {
	c.t.Helper()
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID("uid-" + name), Annotations: map[string]string{}}}
	p.Spec.NodeName, p.Spec.RestartPolicy = "hollow-0", corev1.RestartPolicyAlways
	p.Spec.Containers = []corev1.Container{{Name: "main", Image: "web:1"}}
	for _, e := range edit {
		e(p)
	}
	if _, err := c.kube.CoreV1().Pods("default").Create(c.t.Context(), p, metav1.CreateOptions{}); err != nil {
		c.t.Fatal(err)
	}
	pass(10 * time.Millisecond) // the informer waits for more events that belong together
}

func (c *cluster) pod(name string) *corev1.Pod {
	c.t.Helper()
	p, err := c.kube.CoreV1().Pods("default").Get(c.t.Context(), name, metav1.GetOptions{})
	if err != nil {
		c.t.Fatal(err)
	}
	return p
}

// pass advances virtual time.
func pass(d time.Duration) {
	time.Sleep(d) // takes no real time in a bubble
	synctest.Wait()
}

func scripted(notes ...string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		for _, n := range notes {
			key, value, _ := strings.Cut(n, "=")
			p.Annotations[Prefix+key] = value
		}
	}
}

func TestNodesRegisterAndKeepTheirLeases(t *testing.T) {
	inCluster(t, Options{Nodes: 8, Zones: 3}, func(t *testing.T, c *cluster) {
		pass(10 * time.Second)
		nodes, err := c.kube.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
		if err != nil || len(nodes.Items) != 8 {
			t.Fatalf("%d nodes, %v", len(nodes.Items), err)
		}
		ranges := map[string]bool{}
		for _, n := range nodes.Items {
			ranges[n.Spec.PodCIDR] = true
			if n.Labels[corev1.LabelHostname] != n.Name || n.Labels[corev1.LabelTopologyZone] == "" || n.Status.Allocatable.Pods().Value() != 110 || len(n.Status.Addresses) == 0 {
				t.Fatalf("a node is %+v", n)
			}
			if last := n.Status.Conditions[len(n.Status.Conditions)-1]; last.Type != corev1.NodeReady || last.Status != corev1.ConditionTrue {
				t.Fatalf("node %s is not ready: %+v", n.Name, n.Status.Conditions)
			}
		}
		if len(ranges) != 8 {
			t.Errorf("%d ranges of addresses for 8 nodes", len(ranges))
		}
		for _, wait := range []time.Duration{0, 25 * time.Second, time.Minute} {
			pass(wait)
			leases, err := c.kube.CoordinationV1().Leases(corev1.NamespaceNodeLease).List(t.Context(), metav1.ListOptions{})
			if err != nil || len(leases.Items) != 8 {
				t.Fatalf("%d leases, %v", len(leases.Items), err)
			}
			for _, l := range leases.Items {
				if age := time.Since(l.Spec.RenewTime.Time); age > 11*time.Second || *l.Spec.HolderIdentity != l.Name {
					t.Errorf("the lease of %s is %v old", l.Name, age)
				}
				if o := l.OwnerReferences; len(o) != 1 || o[0].Kind != "Node" || o[0].Name != l.Name {
					t.Errorf("after %v the lease of %s does not go with its node: %+v", wait, l.Name, o)
				}
			}
		}
	})
}

func TestPodsOfOtherNodesAreLeftAlone(t *testing.T) {
	inCluster(t, Options{Nodes: 1}, func(t *testing.T, c *cluster) {
		for _, node := range []string{"", "hollow-1", "real"} {
			c.create("p"+node, func(p *corev1.Pod) { p.Spec.NodeName = node })
		}
		c.create("mirror", func(p *corev1.Pod) { p.Spec.NodeName, p.Annotations[corev1.MirrorPodAnnotationKey] = "real", "x" })
		pass(time.Minute)
		for _, name := range []string{"p", "phollow-1", "preal", "mirror"} {
			if s := c.pod(name).Status; s.StartTime != nil || s.Phase != "" {
				t.Errorf("the status of %s was written: %+v", name, s)
			}
		}
	})
}

// A pod that says it is a mirror pod is run by nobody, and could not end either.
func TestAMirrorPodOfAHollowNodeIsRemoved(t *testing.T) {
	inCluster(t, Options{Nodes: 1}, func(t *testing.T, c *cluster) {
		for _, hash := range []string{"", "x"} {
			c.create("mirror"+hash, func(p *corev1.Pod) { p.Annotations[corev1.MirrorPodAnnotationKey] = hash })
			pass(time.Minute)
			if _, err := c.kube.CoreV1().Pods("default").Get(t.Context(), "mirror"+hash, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
				t.Errorf("the mirror pod with the hash %q is still there: %v", hash, err)
			}
		}
	})
}

func TestAPodRunsAtOnceAndDisappearsWhenItIsDeleted(t *testing.T) {
	inCluster(t, Options{Nodes: 1}, func(t *testing.T, c *cluster) {
		c.create("web")
		p := c.pod("web")
		s := p.Status
		if s.Phase != corev1.PodRunning || s.PodIP == "" || s.HostIP != "127.0.0.1" || len(s.Conditions) != 5 || !strings.HasPrefix(s.ContainerStatuses[0].ContainerID, "hollow://") {
			t.Fatalf("the status is %+v", s)
		}
		p.DeletionTimestamp, p.DeletionGracePeriodSeconds = &metav1.Time{Time: time.Now().Add(30 * time.Second)}, new(int64(30))
		if _, err := c.kube.CoreV1().Pods("default").Update(t.Context(), p, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		pass(time.Second)
		if _, err := c.kube.CoreV1().Pods("default").Get(t.Context(), "web", metav1.GetOptions{}); err == nil {
			t.Error("the pod is still there")
		}
	})
}

func TestAStatusIsWrittenOncePerChange(t *testing.T) {
	inCluster(t, Options{Nodes: 1, EventRate: -1}, func(t *testing.T, c *cluster) {
		c.kube.ClearActions()
		c.create("web")
		pass(time.Hour)
		writes := 0
		for _, a := range c.kube.Actions() {
			if a.GetResource().Resource == "pods" && a.GetSubresource() == "status" {
				writes++
			}
		}
		if writes != 1 {
			t.Errorf("%d writes for one change", writes)
		}
	})
}

func TestAnInvalidImageNameIsReported(t *testing.T) {
	inCluster(t, Options{Nodes: 1}, func(t *testing.T, c *cluster) {
		c.create("bad", func(p *corev1.Pod) { p.Spec.Containers[0].Image = "web::1" })
		pass(time.Minute)
		c.phases("with an invalid image", "bad=Pending")
		w := c.pod("bad").Status.ContainerStatuses[0].State.Waiting
		if w == nil || w.Reason != "InvalidImageName" || w.Message != `Failed to apply default image tag "web::1": couldn't parse image name "web::1": invalid reference format` {
			t.Errorf("the container is %+v", w)
		}
	})
}

func TestScriptsAreFollowed(t *testing.T) {
	inCluster(t, Options{Nodes: 1}, func(t *testing.T, c *cluster) {
		c.create("job", scripted("run-for=30s", "message=all done"), func(p *corev1.Pod) { p.Spec.RestartPolicy = corev1.RestartPolicyNever })
		c.create("bad", scripted("run-for=30s", "exit-code=7", "log=last words"), func(p *corev1.Pod) {
			p.Spec.RestartPolicy = corev1.RestartPolicyNever
			p.Spec.Containers[0].TerminationMessagePolicy = corev1.TerminationMessageFallbackToLogsOnError
		})
		c.create("work", func(p *corev1.Pod) {
			p.Spec.RestartPolicy = corev1.RestartPolicyNever
			p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "batch/v1", Kind: "Job", Name: "work", UID: "1", Controller: new(true)}}
		})
		c.create("slow", scripted("start-delay=20s"))
		c.create("retry", scripted("crashes=2", "crash-after=5s", "crash-code=9"))
		c.create("probed", scripted("ready-after=15s", "unready-after=40s"), func(p *corev1.Pod) {
			p.Spec.Containers[0].ReadinessProbe = &corev1.Probe{PeriodSeconds: 1, FailureThreshold: 1}
		})
		c.phases("at the start", "job=Running bad=Running slow=Pending retry=Running work=Running probed=Running/unready")
		pass(25 * time.Second)
		c.phases("after 25 s", "work=Succeeded slow=Running probed=Running")
		pass(10 * time.Second)
		c.phases("after 35 s", "job=Succeeded bad=Failed retry=Running")
		if s := c.pod("retry").Status.ContainerStatuses[0]; s.RestartCount != 2 || s.LastTerminationState.Terminated == nil || s.LastTerminationState.Terminated.ExitCode != 9 {
			t.Errorf("who crashes twice is %+v", s)
		}
		if s := c.pod("job").Status.ContainerStatuses[0].State.Terminated; s == nil || s.Message != "all done" {
			t.Errorf("the message is %+v", s)
		}
		if s := c.pod("bad").Status.ContainerStatuses[0].State.Terminated; s == nil || s.Message != "last words" {
			t.Errorf("of who left no message its log tells %+v", s)
		}
		pass(20 * time.Second)
		c.phases("after 55 s", "probed=Running/unready")
	})
}

// phases compares pods' phases with want: name=Phase, with /unready for pods that run and are not ready.
func (c *cluster) phases(when, want string) {
	c.t.Helper()
	for w := range strings.FieldsSeq(want) {
		name, _, _ := strings.Cut(w, "=")
		s := c.pod(name).Status
		got := fmt.Sprintf("%s=%s", name, s.Phase)
		for _, cond := range s.Conditions {
			if cond.Type == corev1.PodReady && cond.Status != corev1.ConditionTrue && s.Phase == corev1.PodRunning {
				got += "/unready"
			}
		}
		if got != w {
			c.t.Errorf("%s: %s, want %s", when, got, w)
		}
	}
}

func TestBackOffMatchesKubernetes(t *testing.T) {
	inCluster(t, Options{Nodes: 1}, func(t *testing.T, c *cluster) {
		start := time.Now()
		c.create("crash", scripted("run-for=1s", "exit-code=1"))
		var runs []string
		seen := int32(-1)
		for time.Since(start) < 25*time.Minute {
			if s := c.pod("crash").Status.ContainerStatuses[0]; s.State.Running != nil && s.RestartCount != seen {
				seen = s.RestartCount
				runs = append(runs, time.Since(start).Round(time.Second).String())
			}
			pass(500 * time.Millisecond)
		}
		want := "0s 1s 12s 33s 1m14s 2m35s 5m16s 10m17s 15m18s 20m19s"
		if got := strings.Join(runs, " "); got != want {
			t.Errorf("it ran at %s, want %s", got, want)
		}
	})
}
