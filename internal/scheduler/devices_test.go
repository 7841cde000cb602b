package scheduler

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// ChangeResourceClaim writes a claim with its status.
func (w *world) ChangeResourceClaim(_ context.Context, was *resourcev1.ResourceClaim, change func(*resourcev1.ResourceClaim) error) (*resourcev1.ResourceClaim, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, now := range w.resourceClaims.Objects() {
		if now.Name == was.Name {
			now = now.DeepCopy()
			if err := change(now); err != nil {
				return nil, err
			}
			w.resourceClaims.Modify(now)
			return w.resourceClaim(was.Name), nil
		}
	}
	return nil, fmt.Errorf("no claim %s", was.Name)
}

func (w *world) resourceClaim(name string) *resourcev1.ResourceClaim {
	for _, c := range w.resourceClaims.Objects() {
		if c.Name == name {
			return c
		}
	}
	return nil
}

// publish creates a resource slice with a node's devices.
func (w *world) publish(node string, devices ...string) {
	slice := &resourcev1.ResourceSlice{
		ObjectMeta: metav1.ObjectMeta{Name: "of-" + node},
		Spec: resourcev1.ResourceSliceSpec{
			Driver: "gpu.example.com", NodeName: &node, Pool: resourcev1.ResourcePool{Name: node, Generation: 1, ResourceSliceCount: 1},
		},
	}
	for _, name := range devices {
		model := strings.Split(name, "-")[0]
		slice.Spec.Devices = append(slice.Spec.Devices, resourcev1.Device{
			Name: name, Attributes: map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{"model": {StringValue: &model}},
		})
	}
	w.slices.Add(slice)
}

// asksFor returns a claim for devices of a model.
func asksFor(name, model string, count int64) *resourcev1.ResourceClaim {
	c := &resourcev1.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID("uid-" + name)},
		Spec: resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{Requests: []resourcev1.DeviceRequest{{
			Name: "gpu", Exactly: &resourcev1.ExactDeviceRequest{
				DeviceClassName: "gpu", AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: count,
			},
		}}}},
	}
	if model != "" {
		c.Spec.Devices.Requests[0].Exactly.Selectors = []resourcev1.DeviceSelector{{CEL: &resourcev1.CELDeviceSelector{
			Expression: fmt.Sprintf(`device.attributes["gpu.example.com"].model == %q`, model),
		}}}
	}
	return c
}

func claiming(name string, claims ...string) *corev1.Pod {
	pod := ranked(name, "100m", 0)
	for _, claim := range claims {
		pod.Spec.ResourceClaims = append(pod.Spec.ResourceClaims, corev1.PodResourceClaim{Name: claim, ResourceClaimName: &claim})
	}
	return pod
}

func deviceWorld() *world {
	w := newWorld()
	for _, name := range []string{"n1", "n2", "n3"} {
		w.nodes.Add(testNode(name, "4"))
	}
	w.deviceClasses.Add(&resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "gpu"}})
	return w
}

// firstOf returns a claim for a device of the first of some models that is there.
func firstOf(name string, models ...string) *resourcev1.ResourceClaim {
	c := asksFor(name, "", 1)
	request := &c.Spec.Devices.Requests[0]
	request.Exactly = nil
	for _, model := range models {
		of := asksFor(name, model, 1).Spec.Devices.Requests[0].Exactly
		request.FirstAvailable = append(request.FirstAvailable, resourcev1.DeviceSubRequest{
			Name: model, DeviceClassName: of.DeviceClassName, AllocationMode: of.AllocationMode, Count: of.Count, Selectors: of.Selectors,
		})
	}
	return c
}

// The node with the best devices is the fullest one.
func TestAPodPrefersNodesWithWhatItsClaimNamesFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := deviceWorld()
		w.publish("n1", "small-1", "small-2")
		w.publish("n2", "large-1")
		w.publish("n3", "medium-1", "small-3")
		for i, node := range []string{"n3", "n2", "n2"} {
			w.pods.Add(running(fmt.Sprint("there-", i), "100m", 0, node, 1))
		}
		for _, pod := range []string{"first", "second", "third"} {
			w.resourceClaims.Add(firstOf("of-"+pod, "large", "medium", "small"))
		}
		defer w.start(t, Options{})()
		for i, want := range []string{"n2", "n3", "n1"} {
			pod := []string{"first", "second", "third"}[i]
			w.pods.Add(claiming(pod, "of-"+pod))
			time.Sleep(time.Second)
			if got := w.nodeOf(t, pod); got != want {
				t.Errorf("%s is on %q, want %q: %q", pod, got, want, w.eventLog())
			}
		}
	})
}

func TestAPodGoesWhereItsDevicesAre(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := deviceWorld()
		w.publish("n1", "small-1", "small-2")
		w.publish("n2", "large-1")
		w.resourceClaims.Add(asksFor("large", "large", 1))
		w.resourceClaims.Add(asksFor("two", "small", 2))
		w.resourceClaims.Add(asksFor("more", "large", 1))
		w.pods.Add(claiming("a", "large"))
		w.pods.Add(claiming("b", "two"))
		defer w.start(t, Options{})()
		time.Sleep(time.Second)
		if a, b := w.nodeOf(t, "a"), w.nodeOf(t, "b"); a != "n2" || b != "n1" {
			t.Fatalf("a is on %q, b on %q: %q", a, b, w.eventLog())
		}
		claim := w.resourceClaim("two")
		if got := claim.Status.Allocation.Devices.Results; len(got) != 2 || got[0].Device == got[1].Device {
			t.Errorf("allocated: %+v", got)
		}
		if !slices.Contains(claim.Finalizers, resourcev1.Finalizer) || claim.Status.ReservedFor[0].Name != "b" {
			t.Errorf("claim: %+v", claim)
		}
		// There is no second large device, until the first pod is deleted and its claim is released.
		w.pods.Add(claiming("c", "more"))
		time.Sleep(time.Minute)
		if log := w.eventLog(); w.nodeOf(t, "c") != "" || !strings.HasSuffix(log[len(log)-1],
			"FailedScheduling c: 0/3 nodes are available: 3 cannot allocate all claims. still not schedulable, preemption: 0/3 nodes are available: 3 Preemption is not helpful for scheduling.") {
			t.Errorf("c is on %q: %q", w.nodeOf(t, "c"), log)
		}
		free := w.resourceClaim("large").DeepCopy()
		free.Status = resourcev1.ResourceClaimStatus{}
		w.pods.Delete(claiming("a"))
		w.resourceClaims.Modify(free)
		time.Sleep(time.Minute)
		if c := w.nodeOf(t, "c"); c != "n2" {
			t.Errorf("c is on %q", c)
		}
	})
}

// Pods that arrive at once never get the same device, and all of them share a claim that they name together.
func TestNoDeviceIsAllocatedTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := deviceWorld()
		w.publish("n1", "small-1", "small-2", "small-3")
		w.publish("n2", "small-1", "small-2", "small-3")
		for i := range 8 {
			w.resourceClaims.Add(asksFor(fmt.Sprint("c", i), "", 1))
			w.pods.Add(claiming(fmt.Sprint("p", i), fmt.Sprint("c", i)))
		}
		w.pods.Add(claiming("x", "c0"))
		defer w.start(t, Options{})()
		time.Sleep(time.Minute)
		seen, placed := make(map[string]bool), 0
		for i := range 8 {
			c := w.resourceClaim(fmt.Sprint("c", i))
			if w.nodeOf(t, fmt.Sprint("p", i)) == "" {
				continue
			}
			placed++
			r := c.Status.Allocation.Devices.Results[0]
			if id := r.Pool + "/" + r.Device; seen[id] || r.Pool != w.nodeOf(t, fmt.Sprint("p", i)) {
				t.Errorf("%s is allocated twice or elsewhere", id)
			} else {
				seen[id] = true
			}
		}
		if placed != 6 {
			t.Errorf("%d pods are placed", placed)
		}
		if p0 := w.nodeOf(t, "p0"); p0 != "" && w.nodeOf(t, "x") != p0 {
			t.Errorf("p0 is on %q, x on %q", p0, w.nodeOf(t, "x"))
		}
	})
}

// A pod whose claim has not been made yet waits without an event.
func TestAPodWaitsForItsClaimToBeMade(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := deviceWorld()
		w.publish("n3", "small-1")
		pod := ranked("web", "1", 0)
		template, made := "small", "web-gpu-x"
		pod.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu", ResourceClaimTemplateName: &template}}
		w.pods.Add(pod)
		defer w.start(t, Options{})()
		time.Sleep(time.Minute)
		if log := w.eventLog(); len(log) > 0 {
			t.Errorf("events: %q", log)
		}
		claim := asksFor(made, "", 1)
		yes := true
		claim.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: "web", UID: pod.UID, Controller: &yes}}
		w.resourceClaims.Add(claim)
		pod = pod.DeepCopy()
		pod.Status.ResourceClaimStatuses = []corev1.PodResourceClaimStatus{{Name: "gpu", ResourceClaimName: &made}}
		w.pods.Modify(pod)
		time.Sleep(20 * time.Second)
		if node := w.nodeOf(t, "web"); node != "n3" {
			t.Errorf("on %q: %q", node, w.eventLog())
		}
	})
}

// Devices that were allocated where the pod cannot go any more are released, and allocated elsewhere.
func TestDevicesThatCannotBeUsedAreGivenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := deviceWorld()
		w.publish("n1", "small-1")
		w.publish("n2", "small-1")
		claim := asksFor("gpu", "", 1)
		claim.Status.Allocation = &resourcev1.AllocationResult{
			Devices: resourcev1.DeviceAllocationResult{Results: []resourcev1.DeviceRequestAllocationResult{{
				Request: "gpu", Driver: "gpu.example.com", Pool: "n1", Device: "small-1",
			}}},
			NodeSelector: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchFields: []corev1.NodeSelectorRequirement{{
				Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: []string{"n1"},
			}}}}},
		}
		w.resourceClaims.Add(claim)
		w.pods.Add(running("full", "4", 100, "n1", 1))
		pod := claiming("web", "gpu")
		w.pods.Add(pod)
		defer w.start(t, Options{})()
		time.Sleep(time.Minute)
		if node := w.nodeOf(t, "web"); node != "n2" || w.resourceClaim("gpu").Status.Allocation.Devices.Results[0].Pool != "n2" {
			t.Errorf("on %q: %q", node, w.eventLog())
		}
		const note = "deallocation of ResourceClaim completed, preemption: 0/3 nodes are available"
		if log := w.eventLog(); !strings.Contains(log[0], note) {
			t.Errorf("events: %q", log)
		}
	})
}

// A selector with an error at run time refuses no node: nothing can be decided.
func TestASelectorThatFailsIsAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := deviceWorld()
		w.publish("n1", "small-1")
		claim := asksFor("bad", "small", 1)
		claim.Spec.Devices.Requests[0].Exactly.Selectors[0].CEL.Expression = `device.attributes["gpu.example.com"].nope == "x"`
		w.resourceClaims.Add(claim)
		w.pods.Add(claiming("web", "bad"))
		defer w.start(t, Options{})()
		time.Sleep(time.Second)
		const begins, contains = `Warning FailedScheduling web: running "DynamicResources" filter plugin: claim default/bad: selector #0`, "no such key: nope"
		if log := w.eventLog(); len(log) == 0 || !strings.HasPrefix(log[0], begins) || !strings.Contains(log[0], contains) {
			t.Errorf("events: %q", log)
		}
	})
}

// TestASelectorThatFailsOnOneNodeIsAnError: the pod could go to the other node, which is better. Then its owner would
// not learn of the error.
func TestASelectorThatFailsOnOneNodeIsAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := deviceWorld()
		w.publish("n1", "small-1")
		w.publish("n2", "small-1")
		for _, slice := range w.slices.Objects() {
			if *slice.Spec.NodeName == "n2" {
				slice.Spec.Devices[0].Attributes["there"] = resourcev1.DeviceAttribute{BoolValue: new(true)}
				w.slices.Modify(slice)
			}
		}
		w.pods.Add(running("busy", "2", 0, "n1", 1))
		claim := asksFor("c", "small", 1)
		claim.Spec.Devices.Requests[0].Exactly.Selectors[0].CEL.Expression = `device.attributes["gpu.example.com"].there`
		w.resourceClaims.Add(claim)
		w.pods.Add(claiming("web", "c"))
		defer w.start(t, Options{})()
		time.Sleep(time.Second)
		if node := w.nodeOf(t, "web"); node != "" {
			t.Fatalf("it is on %s", node)
		}
		if log := w.eventLog(); len(log) == 0 || !strings.Contains(log[0], "CEL runtime error: no such key: there") {
			t.Errorf("events: %q", log)
		}
		w.slices.Delete(&resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: "of-n1"}})
		time.Sleep(time.Minute)
		if node := w.nodeOf(t, "web"); node != "n2" {
			t.Errorf("without the device that lacks the attribute it is on %q: %q", node, w.eventLog())
		}
	})
}

// onCondition makes the devices of a node usable only after a condition from their driver.
func (w *world) onCondition(node string) {
	for _, slice := range w.slices.Objects() {
		if *slice.Spec.NodeName == node {
			for i := range slice.Spec.Devices {
				slice.Spec.Devices[i].BindsToNode = new(true)
				slice.Spec.Devices[i].BindingConditions = []string{"example.com/attached"}
				slice.Spec.Devices[i].BindingFailureConditions = []string{"example.com/broken"}
			}
			w.slices.Modify(slice)
		}
	}
}

// says writes a driver's condition for the first device of a claim.
func (w *world) says(claim, condition string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	c := w.resourceClaim(claim).DeepCopy()
	r := c.Status.Allocation.Devices.Results[0]
	c.Status.Devices = []resourcev1.AllocatedDeviceStatus{{Driver: r.Driver, Pool: r.Pool, Device: r.Device, Conditions: []metav1.Condition{{
		Type: condition, Status: metav1.ConditionTrue, Reason: "Told", Message: "by the driver",
	}}}}
	w.resourceClaims.Modify(c)
}

func TestAPodIsBoundWhenItsDevicesAreReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := deviceWorld()
		w.publish("n1", "small-1")
		w.onCondition("n1")
		w.resourceClaims.Add(asksFor("c", "small", 1))
		w.pods.Add(claiming("a", "c"))
		measured := &counting{}
		defer w.start(t, Options{Parallelism: 1, Metrics: measured})()
		time.Sleep(time.Minute)
		if a := w.nodeOf(t, "a"); a != "" {
			t.Fatalf("a is on %q before its device is ready", a)
		}
		w.pods.Add(testPod("other", "100m"))
		time.Sleep(time.Second)
		if w.nodeOf(t, "other") == "" {
			t.Error("a pod that waits for its device holds up another one")
		}
		w.says("c", "example.com/attached")
		time.Sleep(time.Second)
		if a := w.nodeOf(t, "a"); a != "n1" {
			t.Errorf("a is on %q: %q", a, w.eventLog())
		}
		if log := w.eventLog(); log[0] != "Normal BindingConditionsPending a: waiting for binding conditions for device on node n1" {
			t.Errorf("events: %q", log)
		}
		if measured.times("default-scheduler", "gpu.example.com", true, "success") != 1 {
			t.Errorf("measured is %v", measured.measured)
		}
	})
}

// A device that will not become ready is released, and the pod gets another one.
func TestADeviceThatCannotBeReadyIsGivenBack(t *testing.T) {
	for _, c := range []struct {
		name string
		says string
		wait time.Duration
		want string
	}{
		{"the driver says so", "example.com/broken", time.Second, `device binding failed: claim=c, reason=Told, message="by the driver"`},
		{"nobody says anything", "", 11 * time.Minute, "device binding timeout"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := deviceWorld()
				w.publish("n1", "small-1")
				w.onCondition("n1")
				w.resourceClaims.Add(asksFor("c", "", 1))
				w.pods.Add(claiming("a", "c"))
				defer w.start(t, Options{})()
				time.Sleep(time.Second)
				w.slices.Delete(&resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: "of-n1"}})
				w.publish("n2", "small-1")
				if c.says != "" {
					w.says("c", c.says)
				}
				time.Sleep(c.wait)
				time.Sleep(time.Minute)
				if a := w.nodeOf(t, "a"); a != "n2" {
					t.Errorf("a is on %q: %q", a, w.eventLog())
				}
				if log := strings.Join(w.eventLog(), "; "); !strings.Contains(log, `running PreBind plugin "DynamicResources": `+c.want) {
					t.Errorf("events: %s", log)
				}
			})
		})
	}
}
