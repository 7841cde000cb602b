package devicetainteviction_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace/millrace/internal/controllers/devicetainteviction"
	"github.com/millrace/millrace/internal/controllers/internal/looptest"
	"github.com/millrace/millrace/millracetest"
)

const driver = "gpu.example.com"

type world struct {
	*testing.T
	server *looptest.Server
}

func start(t *testing.T) *world {
	w := &world{t, looptest.New(t, millracetest.API(t))}
	clients := w.server.Clients()
	looptest.Run(t, clients, append(looptest.Make(t, clients, devicetainteviction.Entry), &looptest.Nodes{Server: w.server})...)
	return w
}

// user makes a pod that runs and uses a device by a claim of its own, which tolerates some taints.
func (w *world) user(name, device string, tolerations ...resourcev1.DeviceToleration) {
	w.Helper()
	looptest.Create(w.server, "pods", "default", &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PodSpec{
			NodeName: "node-0", Containers: looptest.Containers(), ResourceClaims: []corev1.PodResourceClaim{{Name: "gpu", ResourceClaimName: &name}},
		},
	})
	pod, err := w.server.Kube.CoreV1().Pods("default").Get(w.Context(), name, metav1.GetOptions{})
	if err != nil {
		w.Fatal(err)
	}
	claim := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: name}}
	claim.Spec.Devices.Requests = []resourcev1.DeviceRequest{{Name: "gpu", Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: "gpu", Tolerations: tolerations}}}
	claim.Status.Allocation = &resourcev1.AllocationResult{Devices: resourcev1.DeviceAllocationResult{Results: []resourcev1.DeviceRequestAllocationResult{
		{Request: "gpu", Driver: driver, Pool: "node-0", Device: device, Tolerations: tolerations},
	}}}
	claim.Status.ReservedFor = []resourcev1.ResourceClaimConsumerReference{{Resource: "pods", Name: name, UID: pod.UID}}
	looptest.Create(w.server, "resourceclaims", "default", claim)
}

func tolerating(seconds *int64) resourcev1.DeviceToleration {
	return resourcev1.DeviceToleration{Key: "broken", Operator: resourcev1.DeviceTolerationOpExists, Effect: resourcev1.DeviceTaintEffectNoExecute, TolerationSeconds: seconds}
}

// publish says which devices there are, and which of them are broken.
func (w *world) publish(broken ...string) {
	w.Helper()
	slice := &resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: "gpus"}, Spec: resourcev1.ResourceSliceSpec{
		Driver: driver, NodeName: new("node-0"), Pool: resourcev1.ResourcePool{Name: "node-0", ResourceSliceCount: 1},
	}}
	for i := range 3 {
		d := resourcev1.Device{Name: fmt.Sprint("gpu-", i)}
		for _, name := range broken {
			if name == d.Name {
				d.Taints = []resourcev1.DeviceTaint{{Key: "broken", Effect: resourcev1.DeviceTaintEffectNoExecute}}
			}
		}
		slice.Spec.Devices = append(slice.Spec.Devices, d)
	}
	_ = w.server.Kube.ResourceV1().ResourceSlices().Delete(w.Context(), "gpus", metav1.DeleteOptions{})
	looptest.Create(w.server, "resourceslices", "", slice)
}

func (w *world) rule(name string, effect resourcev1.DeviceTaintEffect, selector *resourcev1.DeviceTaintSelector) {
	w.Helper()
	looptest.Create(w.server, "devicetaintrules", "", &resourcev1.DeviceTaintRule{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       resourcev1.DeviceTaintRuleSpec{DeviceSelector: selector, Taint: resourcev1.DeviceTaint{Key: "broken", Effect: effect}},
	})
}

// says is the condition of a rule.
func (w *world) says(rule string) string {
	w.Helper()
	r, err := w.server.Kube.ResourceV1().DeviceTaintRules().Get(w.Context(), rule, metav1.GetOptions{})
	if err != nil {
		w.Fatal(err)
	}
	if len(r.Status.Conditions) != 1 {
		return fmt.Sprintf("%d conditions", len(r.Status.Conditions))
	}
	c := r.Status.Conditions[0]
	return fmt.Sprintf("%s %s %s: %s", c.Type, c.Status, c.Reason, c.Message)
}

// left checks which pods are left some time later.
func (w *world) left(after time.Duration, want string) {
	w.Helper()
	time.Sleep(after)
	synctest.Wait()
	var names []string
	for _, p := range looptest.All[corev1.Pod](w.server, "pods") {
		names = append(names, p.Name)
	}
	if got := strings.Join(names, " "); got != want {
		w.Errorf("left are %q, want %q", got, want)
	}
}

func TestPodsGoWhenTheirDevicesAreTainted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t)
		w.publish()
		w.user("a", "gpu-0")
		w.user("b", "gpu-1")
		w.user("forever", "gpu-0", tolerating(nil))
		w.user("while", "gpu-0", tolerating(new(int64(300))), tolerating(new(int64(600))))
		w.left(time.Minute, "a b forever while")
		w.publish("gpu-0")
		w.left(time.Minute, "b forever while")
		w.left(3*time.Minute, "b forever while")
		w.left(2*time.Minute, "b forever")
		w.user("late", "gpu-0")
		w.left(time.Minute, "b forever")
		events := looptest.All[corev1.Event](w.server, "events")
		marked := 0
		for _, e := range events {
			if e.Reason == "DeviceTaintManagerEviction" && e.Message == "Marking for deletion" && e.InvolvedObject.Kind == "Pod" {
				marked++
			}
		}
		if marked != 3 {
			t.Errorf("%d events tell of 3 evictions: %v", marked, events)
		}
	})
}

func TestAPodIsMarkedBeforeItIsDeleted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t)
		w.publish()
		w.user("a", "gpu-0")
		looptest.Edit(w.server, "pods", "default", "a", func(p *corev1.Pod) { p.Finalizers = []string{"test/hold"} })
		w.publish("gpu-0")
		w.left(time.Minute, "a")
		for _, c := range looptest.All[corev1.Pod](w.server, "pods")[0].Status.Conditions {
			if c.Type == corev1.DisruptionTarget && c.Reason == "DeletionByDeviceTaintManager" && c.Message == "Device Taint manager: deleting due to NoExecute taint" {
				return
			}
		}
		t.Error("the pod does not say why it was deleted")
	})
}

func TestATaintThatIsTakenOffInTimeLeavesThePod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t)
		w.publish("gpu-0")
		w.user("a", "gpu-0", tolerating(new(int64(300))))
		w.left(time.Minute, "a")
		w.publish()
		w.left(30*time.Minute, "a") // events stay for an hour
		for _, e := range looptest.All[corev1.Event](w.server, "events") {
			if e.Reason == "DeviceTaintManagerEviction" && e.Message == "Cancelling deletion" {
				return
			}
		}
		t.Error("no event tells that the pod stays")
	})
}

func TestARuleTaintsDevicesAndSaysWhatItDoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t)
		w.publish()
		w.user("a", "gpu-0")
		w.user("b", "gpu-1")
		w.user("while", "gpu-0", tolerating(new(int64(300))))
		w.left(time.Second, "a b while") // until the caches show them
		one := &resourcev1.DeviceTaintSelector{Driver: new(driver), Device: new("gpu-0")}
		w.rule("no-selector", resourcev1.DeviceTaintEffectNoExecute, nil)
		w.rule("tried", resourcev1.DeviceTaintEffectNone, one)
		w.rule("schedule", resourcev1.DeviceTaintEffectNoSchedule, one)
		w.left(time.Minute, "a b while")
		for rule, want := range map[string]string{
			"no-selector": "EvictionInProgress False NotStarted: ",
			"schedule":    "EvictionInProgress False EffectNoSchedule: ",
			"tried": "EvictionInProgress False NoEffect: 1 published device selected. 2 allocated devices selected. " +
				"2 pods would be evicted in 1 namespace if the effect was NoExecute. " +
				"This information will not be updated again. Recreate the DeviceTaintRule to trigger an update.",
		} {
			if got := w.says(rule); got != want {
				t.Errorf("rule %s says %q, want %q", rule, got, want)
			}
		}
		w.rule("evict", resourcev1.DeviceTaintEffectNoExecute, one)
		w.left(time.Minute, "b while")
		if got := w.says("evict"); got != "EvictionInProgress True PodsPendingEviction: 1 pod needs to be evicted in 1 namespace. 1 pod evicted since starting the controller." {
			t.Errorf("the rule says %q", got)
		}
		w.left(5*time.Minute, "b")
		if got := w.says("evict"); got != "EvictionInProgress False Completed: 2 pods evicted since starting the controller." {
			t.Errorf("the rule says %q", got)
		}
		w.rule("all", resourcev1.DeviceTaintEffectNoExecute, &resourcev1.DeviceTaintSelector{})
		w.left(time.Minute, "")
	})
}

// Loops that crash at any write: in the end all users of the broken device have gone, and nobody else.
func TestWhateverCrashesTheUsersOfBrokenDevicesGo(t *testing.T) {
	for seed := range uint64(3) {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				random := rand.New(rand.NewPCG(seed, 1))
				w := &world{t, looptest.New(t, millracetest.API(t))}
				lives := looptest.StartLives(t, w.server, rand.New(rand.NewPCG(seed, 2)), devicetainteviction.Entry)
				looptest.Run(t, w.server.Clients(), &looptest.Nodes{Server: w.server})
				w.publish("gpu-0")
				for i := range 60 {
					w.user(fmt.Sprint("p", i), fmt.Sprint("gpu-", i%2))
					switch random.IntN(4) {
					case 0:
						w.server.DropWatches()
					case 1:
						w.server.HoldWatches(random.IntN(2) == 0)
					}
					time.Sleep(time.Duration(random.IntN(1000)) * time.Millisecond)
				}
				w.server.HoldWatches(false)
				lives.Calm()
				time.Sleep(10 * time.Minute)
				left := looptest.All[corev1.Pod](w.server, "pods")
				for _, p := range left {
					var i int
					if _, err := fmt.Sscanf(p.Name, "p%d", &i); err != nil || i%2 == 0 {
						t.Errorf("%s is left, whose device is broken", p.Name)
					}
				}
				if len(left) != 30 || lives.Deaths() == 0 {
					t.Errorf("%d pods are left of 30; the loop crashed %d times", len(left), lives.Deaths())
				}
			})
		})
	}
}
