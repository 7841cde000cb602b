package scheduler

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/millrace/millrace/internal/scheduler/plugin"
	"github.com/millrace/millrace/internal/scheduler/rules"
)

func (w *world) failSpecial(request string) error {
	if w.specialFault == nil {
		return nil
	}
	return w.specialFault(request)
}

// CreateResourceClaim creates a claim.
func (w *world) CreateResourceClaim(_ context.Context, claim *resourcev1.ResourceClaim) (*resourcev1.ResourceClaim, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.failSpecial("create"); err != nil {
		return nil, err
	}
	w.made++
	claim = claim.DeepCopy()
	claim.Name = fmt.Sprint(claim.GenerateName, w.made)
	claim.UID = types.UID("uid-" + claim.Name)
	return w.resourceClaims.Add(claim), nil
}

// DeleteResourceClaim deletes a claim.
func (w *world) DeleteResourceClaim(_ context.Context, claim *resourcev1.ResourceClaim) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.failSpecial("delete"); err != nil {
		return err
	}
	w.resourceClaims.Delete(claim)
	return nil
}

// SetExtendedClaim writes the status of a pod.
func (w *world) SetExtendedClaim(_ context.Context, pod *plugin.Pod, status *corev1.PodExtendedResourceClaimStatus) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.failSpecial("tell"); err != nil {
		return err
	}
	object, err := w.find(pod.Key)
	if err != nil {
		return err
	}
	object.Status.ExtendedResourceClaimStatus = status.DeepCopy()
	w.pods.Modify(object)
	return nil
}

const card = "example.com/card"

// cardWorld is a deviceWorld whose class stands for a resource.
func cardWorld() *world {
	w := deviceWorld()
	w.deviceClasses.Modify(cardClass("gpu"))
	return w
}

func cardClass(name string) *resourcev1.DeviceClass {
	return &resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: resourcev1.DeviceClassSpec{ExtendedResourceName: new(card)}}
}

// asking returns a pod whose first container asks for resources.
func asking(name string, words ...string) *corev1.Pod {
	pod := ranked(name, "100m", 0)
	pod.Spec.Containers[0].Resources.Requests = requests(words...)
	return pod
}

func requests(words ...string) corev1.ResourceList {
	l := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m")}
	for i := 0; i < len(words); i += 2 {
		l[corev1.ResourceName(words[i])] = resource.MustParse(words[i+1])
	}
	return l
}

// equip gives a node a resource of its own.
func (w *world) equip(node, name, amount string) {
	for _, n := range w.nodes.Objects() {
		if n.Name == node {
			n.Status.Allocatable[corev1.ResourceName(name)] = resource.MustParse(amount)
			w.nodes.Modify(n)
		}
	}
}

// extendedClaim describes the claim that a pod's status names: what it requests, and which container uses which
// request.
func (w *world) extendedClaim(t *testing.T, pod string) string {
	t.Helper()
	object, err := w.Read(t.Context(), keyOf(pod))
	if err != nil {
		t.Fatal(err)
	}
	s := object.Status.ExtendedResourceClaimStatus
	if s == nil {
		return "none"
	}
	c := w.resourceClaim(s.ResourceClaimName)
	if c == nil {
		return "gone"
	}
	var words []string
	for _, r := range c.Spec.Devices.Requests {
		words = append(words, fmt.Sprintf("%s=%d %s", r.Name, r.Exactly.Count, r.Exactly.DeviceClassName))
	}
	for _, m := range s.RequestMappings {
		words = append(words, fmt.Sprintf("%s %s: %s", m.ContainerName, m.ResourceName, m.RequestName))
	}
	return strings.Join(words, ", ")
}

func TestExtendedResourcesAreClaimedWhereNodesHaveNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := cardWorld()
		w.publish("n1", "small-1", "small-2", "small-3")
		w.equip("n2", card, "1")
		w.equip("n1", card, "0") // a device plugin was here
		w.pods.Add(asking("two", card, "2"))
		measured := &counting{}
		defer w.start(t, Options{Metrics: measured})()
		time.Sleep(time.Second)
		if two := w.nodeOf(t, "two"); two != "n1" {
			t.Fatalf("two is on %q: %q", two, w.eventLog())
		}
		if got, want := w.extendedClaim(t, "two"), "container-0-request-1=2 gpu, c example.com/card: container-0-request-1"; got != want {
			t.Errorf("the claim is %q, want %q", got, want)
		}
		claim := w.resourceClaims.Objects()[0]
		owner := metav1.GetControllerOf(claim)
		switch {
		case claim.GenerateName != "two-extended-resources-", claim.Annotations[resourcev1.ExtendedResourceClaimAnnotation] != "true":
			t.Errorf("the claim is %+v", claim.ObjectMeta)
		case owner == nil || owner.APIVersion != "v1" || owner.Kind != "Pod" || owner.Name != "two" || owner.UID != "uid-two":
			t.Errorf("its owner is %+v", owner)
		case !slices.Contains(claim.Finalizers, resourcev1.Finalizer) || claim.Status.ReservedFor[0].UID != "uid-two" || len(claim.Status.Allocation.Devices.Results) != 2:
			t.Errorf("the claim is %+v", claim)
		}
		// There is one device left on n1, and n2 has a card of its own but no device.
		w.pods.Add(asking("one", card, "1", resourcev1.ResourceDeviceClassPrefix+"gpu", "1"))
		time.Sleep(time.Second)
		if one := w.nodeOf(t, "one"); one != "" {
			t.Errorf("one is on %q", one)
		}
		w.pods.Add(asking("last", resourcev1.ResourceDeviceClassPrefix+"gpu", "1"))
		time.Sleep(time.Second)
		if got, want := w.extendedClaim(t, "last"), "container-0-request-1=1 gpu, c deviceclass.resource.kubernetes.io/gpu: container-0-request-1"; got != want || w.nodeOf(t, "last") != "n1" {
			t.Errorf("last is on %q with claim %q", w.nodeOf(t, "last"), got)
		}
		w.pods.Add(asking("own", card, "1"))
		time.Sleep(time.Second)
		if got := w.extendedClaim(t, "own"); got != "none" || w.nodeOf(t, "own") != "n2" {
			t.Errorf("own is on %q with claim %q", w.nodeOf(t, "own"), got)
		}
		if got := measured.times("claim", nil); got != 2 {
			t.Errorf("%d claims were counted", got)
		}
	})
}

// Init containers use the devices of containers that begin later, and share one request for what they need beyond
// these.
func TestContainersOfAPodShareDevices(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := cardWorld()
		w.publish("n1", "a-1", "a-2", "a-3", "a-4", "a-5")
		pod := asking("web", card, "1")
		initial := func(name, count string) corev1.Container {
			c := *pod.Spec.Containers[0].DeepCopy()
			c.Name, c.Resources.Requests = name, requests(card, count)
			return c
		}
		pod.Spec.InitContainers = []corev1.Container{initial("i0", "4"), initial("side", "1"), initial("i2", "1"), initial("i3", "3")}
		pod.Spec.InitContainers[1].RestartPolicy = new(corev1.ContainerRestartPolicyAlways)
		w.pods.Add(pod)
		defer w.start(t, Options{})()
		time.Sleep(time.Second)
		want := strings.Join([]string{
			"container-0-request-1=2 gpu", "container-1-request-1=1 gpu", "container-4-request-1=1 gpu",
			"side example.com/card: container-1-request-1", "c example.com/card: container-4-request-1",
			"i0 example.com/card: container-1-request-1", "i0 example.com/card: container-4-request-1", "i0 example.com/card: container-0-request-1",
			"i2 example.com/card: container-4-request-1",
			"i3 example.com/card: container-4-request-1", "i3 example.com/card: container-0-request-1",
		}, ", ")
		if got := w.extendedClaim(t, "web"); got != want {
			t.Errorf("the claim is\n\t%s, want\n\t%s", got, want)
		}
	})
}

// Pods that arrive at once never get the same device, though their claims do not exist yet.
func TestNoDeviceIsPromisedTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := cardWorld()
		w.publish("n1", "a-1", "a-2", "a-3")
		w.publish("n2", "a-1", "a-2", "a-3")
		for i := range 8 {
			w.pods.Add(asking(fmt.Sprint("p", i), card, "1"))
		}
		defer w.start(t, Options{})()
		time.Sleep(time.Minute)
		seen := make(map[string]bool)
		for _, c := range w.resourceClaims.Objects() {
			r := c.Status.Allocation.Devices.Results[0]
			if id := r.Pool + "/" + r.Device; seen[id] {
				t.Errorf("%s is allocated twice", id)
			} else {
				seen[id] = true
			}
		}
		if len(seen) != 6 {
			t.Errorf("allocated are %v", seen)
		}
		const waits = "0/3 nodes are available: 3 cannot allocate all claims. still not schedulable, preemption: 0/3 nodes are available: 3 Preemption is not helpful for scheduling."
		if log := strings.Join(w.eventLog(), "\n"); !strings.Contains(log, waits) {
			t.Errorf("events: %s", log)
		}
		// A claim that has gone leaves room for one of those that wait.
		w.resourceClaims.Delete(w.resourceClaims.Objects()[0])
		time.Sleep(time.Minute)
		if got := len(w.resourceClaims.Objects()); got != 6 {
			t.Errorf("there are %d claims", got)
		}
	})
}

func TestAPodIsTriedAgainWhenAClassStandsForItsResource(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := deviceWorld()
		w.publish("n1", "a-1")
		w.pods.Add(asking("web", card, "1"))
		defer w.start(t, Options{})()
		time.Sleep(time.Minute)
		const says = "Warning FailedScheduling web: 0/3 nodes are available: 3 Insufficient example.com/card. preemption: 0/3 nodes are available: 3 Preemption is not helpful for scheduling."
		if log := w.eventLog(); len(log) == 0 || log[0] != says {
			t.Errorf("events: %q", log)
		}
		w.deviceClasses.Add(cardClass("cards"))
		time.Sleep(20 * time.Second)
		if web := w.nodeOf(t, "web"); web != "n1" {
			t.Errorf("web is on %q: %q", web, w.eventLog())
		}
	})
}

// TestAClaimIsDeletedIfItsPodIsNotBound: whatever fails, no claim and no device is left, and the next attempt succeeds.
func TestAClaimIsDeletedIfItsPodIsNotBound(t *testing.T) {
	for _, at := range []string{"create", "tell", "bind", "bind and delete"} {
		t.Run(at, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := cardWorld()
				w.publish("n1", "a-1")
				var fails atomic.Bool
				fails.Store(true)
				w.specialFault = func(request string) error {
					if fails.Load() && strings.Contains(at, request) {
						return errors.New("told to fail")
					}
					return nil
				}
				if strings.HasPrefix(at, "bind") {
					w.fault = func() fault {
						if fails.Load() {
							return fault{never: true, answer: apierrors.NewBadRequest("told to fail")}
						}
						return fault{}
					}
				}
				w.pods.Add(asking("web", card, "1"))
				defer w.start(t, Options{})()
				time.Sleep(500 * time.Millisecond)
				left := len(w.resourceClaims.Objects())
				if want := map[bool]int{true: 1}[strings.HasSuffix(at, "delete")]; left != want || w.nodeOf(t, "web") != "" {
					t.Errorf("%d claims are left, want %d; the pod is on %q", left, want, w.nodeOf(t, "web"))
				}
				fails.Store(false)
				time.Sleep(time.Minute)
				if web := w.nodeOf(t, "web"); web != "n1" || len(w.resourceClaims.Objects()) != 1 {
					t.Errorf("the pod is on %q, and there are %d claims: %q", web, len(w.resourceClaims.Objects()), w.eventLog())
				}
				const deleted = "3 cannot schedule extended resource claim. deletion of ResourceClaim completed, "
				if log := strings.Join(w.eventLog(), "; "); strings.Contains(log, deleted) != (left == 1) {
					t.Errorf("events: %s", log)
				}
			})
		})
	}
}

// TestPodsAreSpreadOverClaimedDevices: the devices that stand for a resource count as if the nodes had them.
func TestPodsAreSpreadOverClaimedDevices(t *testing.T) {
	for strategy, want := range map[rules.StrategyType]string{rules.LeastAllocated: "n2", rules.MostAllocated: "n1"} {
		t.Run(string(strategy), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := cardWorld()
				w.publish("n1", "a-1", "a-2")
				w.publish("n2", "a-1", "a-2", "a-3", "a-4", "a-5", "a-6")
				set := rules.Defaults()
				resources := rules.NewResources(rules.ResourcesOptions{Strategy: rules.Strategy{
					Type: strategy, Resources: []rules.WeightedResource{{Name: card, Weight: 1}},
				}})
				set.Scores = []plugin.Weighted[plugin.Score]{{Plugin: resources, Weight: 1}}
				w.pods.Add(asking("web", card, "1"))
				defer w.start(t, Options{Profiles: []Profile{{Rules: set}}})()
				time.Sleep(time.Second)
				if web := w.nodeOf(t, "web"); web != want {
					t.Errorf("web is on %q, want %s: %q", web, want, w.eventLog())
				}
			})
		})
	}
}
