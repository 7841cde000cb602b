package endpointslice_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/millrace/millrace/internal/controllers/endpoints"
	"github.com/millrace/millrace/internal/controllers/endpointslice"
	"github.com/millrace/millrace/internal/controllers/internal/looptest"
	"github.com/millrace/millrace/loop"
	"github.com/millrace/millrace/millracetest"
)

func TestServicePodsAreInSlicesOfAtMostOneHundred(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t)
		c.service(func(s *corev1.Service) { s.Labels = map[string]string{"team": "a"} })
		c.settle()
		slices := c.slices()
		if len(slices) != 1 || len(slices[0].Endpoints) != 0 {
			t.Fatalf("a service without pods has %d slices", len(slices))
		}
		for i := range 250 {
			c.pod(i, func(*corev1.Pod) {})
		}
		c.settle()
		slices = c.slices()
		// Pods come in batches, and few changes are more important than full slices.
		if len(slices) < 3 || len(slices) > 5 {
			t.Errorf("250 pods are in %d slices", len(slices))
		}
		c.check(250)
		if slices[0].Labels["team"] != "a" || slices[0].Labels[discoveryv1.LabelServiceName] != "web" {
			t.Errorf("labels %v", slices[0].Labels)
		}
	})
}

func TestSlicesHaveTheTimeOfTheChangeThatTriggeredThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t)
		c.service(func(*corev1.Service) {})
		c.pod(1, func(*corev1.Pod) {})
		c.settle()
		changed := metav1.NewTime(time.Now().Truncate(time.Second))
		looptest.Edit(c.server, "pods", "default", "pod-1", func(p *corev1.Pod) {
			p.Status.Conditions[0].Status, p.Status.Conditions[0].LastTransitionTime = corev1.ConditionFalse, changed
		})
		c.settle()
		if got := c.slices()[0].Annotations[corev1.EndpointsLastChangeTriggerTime]; got != changed.UTC().Format(time.RFC3339Nano) {
			t.Errorf("due since %q, expected %v", got, changed)
		}
		looptest.Edit(c.server, "services", "default", "web", func(s *corev1.Service) { s.Labels = map[string]string{"team": "b"} })
		c.settle()
		if slice := c.slices()[0]; slice.Labels["team"] != "b" || slice.Annotations[corev1.EndpointsLastChangeTriggerTime] != "" {
			t.Errorf("a change of labels is due since %v", slice.Annotations)
		}
	})
}

func TestAChangeOfOnePodChangesOneSlice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t)
		c.service(func(*corev1.Service) {})
		for i := range 250 {
			c.pod(i, func(*corev1.Pod) {})
		}
		c.settle()
		before := c.versions()
		looptest.Edit(c.server, "pods", "default", "pod-7", func(p *corev1.Pod) { p.Status.Conditions[0].Status = corev1.ConditionFalse })
		c.settle()
		changed := 0
		for name, version := range c.versions() {
			if before[name] != version {
				changed++
			}
		}
		if changed != 1 {
			t.Errorf("%d slices changed", changed)
		}
		c.check(249)
	})
}

func TestPodsOfDifferentNamedPortsAreInDifferentSlices(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t)
		c.service(func(s *corev1.Service) { s.Spec.Ports[0].TargetPort = intstr.FromString("http") })
		c.pod(1, func(*corev1.Pod) {})
		c.pod(2, func(p *corev1.Pod) { p.Spec.Containers[0].Ports[0].ContainerPort = 9090 })
		c.settle()
		ports := map[int32]bool{}
		for _, slice := range c.slices() {
			ports[*slice.Ports[0].Port] = true
		}
		if !ports[8080] || !ports[9090] || len(ports) != 2 {
			t.Errorf("ports %v", ports)
		}
		subsets := looptest.All[corev1.Endpoints](c.server, "endpoints")[0].Subsets
		if len(subsets) != 2 {
			t.Errorf("subsets %+v", subsets)
		}
	})
}

func TestConditionsReadyServingAndTerminatingAreSet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t)
		c.service(func(*corev1.Service) {})
		c.pod(1, func(p *corev1.Pod) { p.Spec.NodeName = "node" })
		c.settle()
		if err := c.clients.Kube.CoreV1().Pods("default").Delete(t.Context(), "pod-1", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		c.settle()
		e := c.slices()[0].Endpoints[0]
		if *e.Conditions.Ready || !*e.Conditions.Serving || !*e.Conditions.Terminating {
			t.Errorf("conditions %+v", e.Conditions)
		}
		if subsets := looptest.All[corev1.Endpoints](c.server, "endpoints")[0].Subsets; len(subsets) != 0 {
			t.Errorf("a terminating pod is among %+v", subsets)
		}
	})
}

func TestASliceKeepsItsNameWhenItsPortsChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t)
		c.service(func(*corev1.Service) {})
		c.settle()
		name := c.slices()[0].Name
		only := func(when string, port int32, ready int) {
			t.Helper()
			c.settle()
			slices := c.slices()
			if len(slices) != 1 || slices[0].Name != name || len(slices[0].Ports) != 1 || *slices[0].Ports[0].Port != port {
				t.Fatalf("%s: %d slices, the first is %s with ports %v; it was %s", when, len(slices), slices[0].Name, slices[0].Ports, name)
			}
			c.check(ready)
		}
		c.pod(1, func(*corev1.Pod) {})
		c.pod(2, func(*corev1.Pod) {})
		only("with its first pods", 8080, 2)
		looptest.Edit(c.server, "services", "default", "web", func(s *corev1.Service) {
			s.Spec.Ports[0].TargetPort, s.Labels = intstr.FromInt32(9090), map[string]string{"team": "b"}
		})
		only("on another port", 9090, 2)
		if labels := c.slices()[0].Labels; labels["team"] != "b" {
			t.Errorf("labels %v", labels)
		}
		looptest.Edit(c.server, "services", "default", "web", func(s *corev1.Service) { s.Spec.Ports[0].TargetPort = intstr.FromString("http") })
		only("on a port with a name", 8080, 2)
		looptest.Edit(c.server, "services", "default", "web", func(s *corev1.Service) { s.Spec.Selector = map[string]string{"app": "none"} })
		c.settle()
		if slices := c.slices(); len(slices) != 1 || slices[0].Name != name || len(slices[0].Endpoints) != 0 {
			t.Errorf("without pods the slices are %+v; the first was %s", slices, name)
		}
	})
}

func TestTrafficDistributionGivesHints(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t)
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "here", Labels: map[string]string{corev1.LabelTopologyZone: "a"}}}
		if _, err := c.clients.Kube.CoreV1().Nodes().Create(t.Context(), node, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		c.service(func(*corev1.Service) {})
		c.pod(1, func(p *corev1.Pod) { p.Spec.NodeName = "here" })
		c.pod(2, func(p *corev1.Pod) {
			p.Spec.NodeName, p.Status.Conditions[0].Status = "here", corev1.ConditionFalse
		})
		c.pod(3, func(p *corev1.Pod) { p.Spec.NodeName = "elsewhere" }) // a node without a known zone
		for _, wanted := range []struct{ distribution, annotation, one, three string }{
			{"", "", "[] []", "[] []"},
			{corev1.ServiceTrafficDistributionPreferClose, "", "[{a}] []", "[] []"},
			{corev1.ServiceTrafficDistributionPreferSameZone, "", "[{a}] []", "[] []"},
			{corev1.ServiceTrafficDistributionPreferSameNode, "", "[{a}] [{here}]", "[] [{elsewhere}]"},
			{corev1.ServiceTrafficDistributionPreferSameNode, "Auto", "[] []", "[] []"},
			{"", "", "[] []", "[] []"},
		} {
			looptest.Edit(c.server, "services", "default", "web", func(s *corev1.Service) {
				s.Spec.TrafficDistribution, s.Annotations = nil, map[string]string{corev1.AnnotationTopologyMode: wanted.annotation}
				if wanted.distribution != "" {
					s.Spec.TrafficDistribution = &wanted.distribution
				}
			})
			c.settle()
			got := map[string]string{}
			for _, e := range c.slices()[0].Endpoints {
				hints := e.Hints
				if hints == nil {
					hints = &discoveryv1.EndpointHints{}
				}
				got[e.TargetRef.Name] = fmt.Sprint(hints.ForZones, " ", hints.ForNodes)
			}
			if got["pod-1"] != wanted.one || got["pod-2"] != "[] []" || got["pod-3"] != wanted.three {
				t.Errorf("%s %s: hints %v", wanted.distribution, wanted.annotation, got)
			}
		}
	})
}

// Pods come, go and change, requests fail and watches end: in the end the slices match the pods.
func TestRandomPodsConverge(t *testing.T) {
	for seed := range uint64(2) {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				random := rand.New(rand.NewPCG(seed, 3))
				c := start(t)
				c.service(func(*corev1.Service) {})
				faults := c.server.Faults(rand.New(rand.NewPCG(seed, 4)))
				for step := range 150 {
					faults.Store(false)
					i := random.IntN(130)
					switch random.IntN(4) {
					case 0, 1:
						if pods := c.clients.Kube.CoreV1().Pods("default"); !exists(pods.Get(t.Context(), fmt.Sprint("pod-", i), metav1.GetOptions{})) {
							c.pod(i, func(*corev1.Pod) {})
						}
					case 2:
						looptest.Edit(c.server, "pods", "default", fmt.Sprint("pod-", i), func(p *corev1.Pod) {
							p.Status.Conditions[0].Status = []corev1.ConditionStatus{corev1.ConditionTrue, corev1.ConditionFalse}[random.IntN(2)]
						})
					case 3:
						_ = c.clients.Kube.CoreV1().Pods("default").Delete(t.Context(), fmt.Sprint("pod-", i), metav1.DeleteOptions{})
					}
					faults.Store(true)
					if step%50 == 0 {
						c.server.DropWatches()
					}
					time.Sleep(time.Duration(random.IntN(50)) * time.Millisecond)
				}
				faults.Store(false)
				c.settle()
				ready := 0
				for _, p := range looptest.All[corev1.Pod](c.server, "pods") {
					if p.Status.Conditions[0].Status == corev1.ConditionTrue {
						ready++
					}
				}
				c.check(ready)
			})
		})
	}
}

func exists(_ *corev1.Pod, err error) bool { return err == nil }

type cluster struct {
	t       *testing.T
	server  *looptest.Server
	clients *loop.Clients
}

func start(t *testing.T) *cluster {
	server := looptest.New(t, millracetest.API(t))
	clients := server.Clients()
	looptest.Start(t, clients, endpointslice.Entry, endpoints.Entry)
	return &cluster{t, server, clients}
}

func (c *cluster) settle() { time.Sleep(20 * time.Minute); synctest.Wait() }

func (c *cluster) service(edit func(*corev1.Service)) {
	c.t.Helper()
	s := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: corev1.ServiceSpec{
			Selector: map[string]string{"app": "web"}, ClusterIP: "10.96.100.1", IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol},
			Ports: []corev1.ServicePort{{Name: "http", Port: 80, Protocol: corev1.ProtocolTCP, TargetPort: intstr.FromInt32(8080)}},
		},
	}
	edit(s)
	if _, err := c.clients.Kube.CoreV1().Services("default").Create(c.t.Context(), s, metav1.CreateOptions{}); err != nil {
		c.t.Fatal(err)
	}
}

func (c *cluster) pod(i int, edit func(*corev1.Pod)) {
	ip := fmt.Sprintf("10.0.%d.%d", i/250, i%250)
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("pod-", i), Labels: map[string]string{"app": "web"}},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{
			Name: "main", Image: "image", Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: 8080, Protocol: corev1.ProtocolTCP}},
		}}},
		Status: corev1.PodStatus{
			Phase: corev1.PodRunning, PodIP: ip, PodIPs: []corev1.PodIP{{IP: ip}},
			Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
		},
	}
	edit(p)
	looptest.Create(c.server, "pods", "default", p)
}

func (c *cluster) slices() []*discoveryv1.EndpointSlice {
	return looptest.All[discoveryv1.EndpointSlice](c.server, "endpointslices")
}

func (c *cluster) versions() map[string]string {
	out := map[string]string{}
	for _, slice := range c.slices() {
		out[slice.Name] = slice.ResourceVersion
	}
	return out
}

// check checks that each pod is in one slice, and how many are ready.
func (c *cluster) check(ready int) {
	c.t.Helper()
	seen := map[string]int{}
	for _, slice := range c.slices() {
		if len(slice.Endpoints) > 100 {
			c.t.Errorf("%d endpoints in a slice", len(slice.Endpoints))
		}
		for _, e := range slice.Endpoints {
			seen[e.TargetRef.Name]++
			if *e.Conditions.Ready {
				ready--
			}
		}
	}
	for _, p := range looptest.All[corev1.Pod](c.server, "pods") {
		if seen[p.Name] != 1 {
			c.t.Errorf("pod %s is in %d slices", p.Name, seen[p.Name])
		}
		delete(seen, p.Name)
	}
	if len(seen) > 0 || ready != 0 {
		c.t.Errorf("endpoints without pods: %v; ready ones wrong by %d", seen, ready)
	}
}
