package resourceclaim_test

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace/millrace/internal/controllers/internal/looptest"
	"github.com/millrace/millrace/internal/controllers/resourceclaim"
	"github.com/millrace/millrace/millracetest"
)

type world struct {
	*testing.T
	server *looptest.Server
}

// start runs the loop, and nodes if wanted.
func start(t *testing.T, nodes bool) *world {
	w := &world{t, looptest.New(t, millracetest.API(t))}
	clients := w.server.Clients()
	runners := looptest.Make(t, clients, resourceclaim.Entry)
	if nodes {
		runners = append(runners, &looptest.Nodes{Server: w.server})
	}
	looptest.Run(t, clients, runners...)
	return w
}

func (w *world) template(name string) {
	w.Helper()
	looptest.Create(w.server, "resourceclaimtemplates", "default", &resourcev1.ResourceClaimTemplate{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: resourcev1.ResourceClaimTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"team": "a"}, Annotations: map[string]string{"note": "n"}}, Spec: spec(),
		},
	})
}

func spec() resourcev1.ResourceClaimSpec {
	return resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{Requests: []resourcev1.DeviceRequest{
		{Name: "gpu", Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: "gpu"}},
	}}}
}

// pod makes a pod whose claims are made from templates, by what the pod calls them.
func (w *world) pod(name, node string, templates map[string]string) {
	w.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PodSpec{NodeName: node, Containers: looptest.Containers()}}
	for _, claim := range slices.Sorted(maps.Keys(templates)) {
		pod.Spec.ResourceClaims = append(pod.Spec.ResourceClaims, corev1.PodResourceClaim{Name: claim, ResourceClaimTemplateName: new(templates[claim])})
	}
	looptest.Create(w.server, "pods", "default", pod)
}

// user makes a pod that uses a claim that somebody else makes.
func (w *world) user(name, node, claim string) *corev1.Pod {
	w.Helper()
	looptest.Create(w.server, "pods", "default", &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PodSpec{
			NodeName: node, Containers: looptest.Containers(), ResourceClaims: []corev1.PodResourceClaim{{Name: "shared", ResourceClaimName: &claim}},
		},
	})
	return w.podNamed(name)
}

func (w *world) podNamed(name string) *corev1.Pod {
	w.Helper()
	pod, err := w.server.Kube.CoreV1().Pods("default").Get(w.Context(), name, metav1.GetOptions{})
	if err != nil {
		w.Fatal(err)
	}
	return pod
}

func (w *world) claims() []*resourcev1.ResourceClaim {
	return looptest.All[resourcev1.ResourceClaim](w.server, "resourceclaims")
}

func (w *world) claim(name string) *resourcev1.ResourceClaim {
	w.Helper()
	claim, err := w.server.Kube.ResourceV1().ResourceClaims("default").Get(w.Context(), name, metav1.GetOptions{})
	if err != nil {
		w.Fatal(err)
	}
	return claim
}

// allocate is what a scheduler does with a claim, for pods or for nobody.
func (w *world) allocate(claim string, users ...*corev1.Pod) {
	looptest.Edit(w.server, "resourceclaims", "default", claim, func(c *resourcev1.ResourceClaim) {
		c.Finalizers = append(c.Finalizers, resourcev1.Finalizer)
		c.Status.Allocation = &resourcev1.AllocationResult{Devices: resourcev1.DeviceAllocationResult{Results: []resourcev1.DeviceRequestAllocationResult{
			{Request: "gpu", Driver: "gpu.example.com", Pool: "node-0", Device: "gpu-0"},
		}}}
		for _, pod := range users {
			c.Status.ReservedFor = append(c.Status.ReservedFor, resourcev1.ResourceClaimConsumerReference{Resource: "pods", Name: pod.Name, UID: pod.UID})
		}
	})
}

func (w *world) makeClaim(name string) {
	w.Helper()
	looptest.Create(w.server, "resourceclaims", "default", &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec()})
}

func (w *world) end(pod string) {
	looptest.Edit(w.server, "pods", "default", pod, func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded })
	time.Sleep(time.Minute)
}

func (w *world) remove(pod string) {
	w.Helper()
	if err := w.server.Kube.CoreV1().Pods("default").Delete(w.Context(), pod, metav1.DeleteOptions{GracePeriodSeconds: new(int64)}); err != nil {
		w.Fatal(err)
	}
	time.Sleep(time.Minute)
}

func TestAPodGetsTheClaimsOfItsTemplates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, false)
		w.template("one")
		w.template("two")
		w.pod("web", "", map[string]string{"a": "one", "b": "two"})
		time.Sleep(time.Minute)
		pod, claims := w.podNamed("web"), w.claims()
		if len(claims) != 2 || len(pod.Status.ResourceClaimStatuses) != 2 {
			t.Fatalf("claims %v, status %+v", claims, pod.Status.ResourceClaimStatuses)
		}
		for i, name := range []string{"a", "b"} {
			c, s := claims[i], pod.Status.ResourceClaimStatuses[i]
			if s.Name != name || s.ResourceClaimName == nil || *s.ResourceClaimName != c.Name || !strings.HasPrefix(c.Name, "web-"+name+"-") ||
				c.GenerateName != "web-"+name+"-" || !metav1.IsControlledBy(c, pod) || !*c.OwnerReferences[0].BlockOwnerDeletion ||
				c.Annotations["resource.kubernetes.io/pod-claim-name"] != name || c.Annotations["note"] != "n" || c.Labels["team"] != "a" {
				t.Errorf("%s: claim %+v, status %+v", name, c.ObjectMeta, s)
			}
		}
	})
}

func TestAClaimThatWasDeletedIsMadeAgainAndTheOthersStayInTheStatus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, false)
		w.template("one")
		w.pod("web", "", map[string]string{"a": "one", "b": "one"})
		time.Sleep(time.Minute)
		before := w.claims()
		if err := w.server.Kube.ResourceV1().ResourceClaims("default").Delete(t.Context(), before[0].Name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		after, statuses := w.claims(), w.podNamed("web").Status.ResourceClaimStatuses
		if len(after) != 2 || after[0].UID == before[0].UID || after[1].UID != before[1].UID ||
			len(statuses) != 2 || *statuses[0].ResourceClaimName != after[0].Name || *statuses[1].ResourceClaimName != after[1].Name {
			t.Errorf("claims %v, status %v", after, statuses)
		}
	})
}

func TestAPodWaitsForItsTemplateAndAnEventSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, false)
		w.pod("web", "", map[string]string{"a": "late"})
		time.Sleep(time.Hour)
		events := looptest.All[corev1.Event](w.server, "events")
		want := `PodResourceClaim a: resource claim template "late": resourceclaimtemplate.resource.k8s.io "late" not found`
		if len(events) == 0 || events[0].Reason != "FailedResourceClaimCreation" || events[0].Message != want || events[0].InvolvedObject.Name != "web" {
			t.Errorf("events %+v", events)
		}
		w.template("late")
		time.Sleep(time.Second)
		if n := len(w.claims()); n != 1 {
			t.Errorf("%d claims a second after the template came", n)
		}
	})
}

func TestLongNamesMakeNamesThatAreValid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, false)
		w.template("one")
		long := strings.Repeat("p.", 60) + "p"
		w.pod(long, "", map[string]string{strings.Repeat("c", 63): "one"})
		time.Sleep(time.Minute)
		claims := w.claims()
		if len(claims) != 1 || len(claims[0].Name) > 63 || !strings.HasPrefix(claims[0].Name, "p.p") || !strings.Contains(claims[0].Name, "-c") {
			t.Errorf("claims %v", claims)
		}
	})
}

func TestANameThatSomebodyElseUsesIsLeftToThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, false)
		w.template("one")
		w.pod("web", "", map[string]string{"a": "one"})
		time.Sleep(time.Minute)
		first := w.claims()[0]
		// The claim goes, and before the loop hears of that somebody else takes its name.
		w.server.HoldWatches(true)
		if err := w.server.Kube.ResourceV1().ResourceClaims("default").Delete(t.Context(), first.Name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		w.makeClaim(first.Name)
		w.server.HoldWatches(false)
		time.Sleep(time.Minute)
		pod := w.podNamed("web")
		if name := *pod.Status.ResourceClaimStatuses[0].ResourceClaimName; name == first.Name || !metav1.IsControlledBy(w.claim(name), pod) {
			t.Errorf("the pod uses %s, whose owners are %v", name, w.claim(name).OwnerReferences)
		}
	})
}

func TestAPodThatWasGivenItsNodeByOthersIsNotedAsAUser(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, false)
		w.makeClaim("shared")
		pod := w.user("web", "node-0", "shared")
		w.allocate("shared")
		time.Sleep(time.Minute)
		if users := w.claim("shared").Status.ReservedFor; len(users) != 1 || users[0].UID != pod.UID || users[0].Resource != "pods" {
			t.Errorf("users %v", users)
		}
	})
}

func TestDevicesAreFreeWhenTheLastUserHasEnded(t *testing.T) {
	for how, end := range map[string]func(*world, string){"ended": (*world).end, "gone": (*world).remove} {
		t.Run(how, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := start(t, false)
				w.makeClaim("shared")
				a, b := w.user("a", "node-0", "shared"), w.user("b", "node-0", "shared")
				w.allocate("shared", a, b)
				end(w, "a")
				c := w.claim("shared")
				if users := c.Status.ReservedFor; len(users) != 1 || users[0].UID != b.UID || c.Status.Allocation == nil {
					t.Errorf("with one user left: %+v", c.Status)
				}
				end(w, "b")
				if c = w.claim("shared"); len(c.Status.ReservedFor) != 0 || c.Status.Allocation != nil || len(c.Finalizers) != 0 {
					t.Errorf("with no user left: %v, %+v", c.Finalizers, c.Status)
				}
			})
		})
	}
}

func TestAClaimGoesWithThePodThatItWasMadeForWhenThatEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, false)
		w.template("one")
		w.pod("job", "node-0", map[string]string{"a": "one"})
		time.Sleep(time.Minute)
		w.allocate(w.claims()[0].Name, w.podNamed("job"))
		w.pod("deleted", "", map[string]string{"a": "one"})
		looptest.Edit(w.server, "pods", "default", "deleted", func(p *corev1.Pod) { p.Finalizers = []string{"test/hold"} })
		time.Sleep(time.Minute)
		if n := len(w.claims()); n != 2 {
			t.Fatalf("%d claims", n)
		}
		w.end("job")
		if left := w.claims(); len(left) != 1 || !strings.HasPrefix(left[0].Name, "deleted-") {
			t.Errorf("left: %v", left)
		}
		w.remove("deleted") // before it had a node: nothing of it will ever run
		if left := w.claims(); len(left) != 0 {
			t.Errorf("left: %v", left)
		}
	})
}

func TestAPodThatTheCacheDoesNotShowYetStaysAUser(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, false)
		w.makeClaim("shared")
		time.Sleep(time.Minute)
		// Pods are not shown; claims are.
		w.server.Intercept(func(r *http.Request) error {
			if r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/v1/pods") {
				return errors.New("lost")
			}
			return nil
		}, nil)
		w.server.DropWatches()
		w.allocate("shared", w.user("new", "", "shared"))
		time.Sleep(time.Minute)
		if c := w.claim("shared"); len(c.Status.ReservedFor) != 1 || c.Status.Allocation == nil {
			t.Errorf("a pod that exists lost its claim: %+v", c.Status)
		}
	})
}

func TestADeletedClaimThatNobodyUsesGoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, false)
		w.makeClaim("idle")
		w.allocate("idle")
		time.Sleep(time.Minute)
		if c := w.claim("idle"); c.Status.Allocation == nil {
			t.Error("a claim that never had a user lost its devices")
		}
		if err := w.server.Kube.ResourceV1().ResourceClaims("default").Delete(t.Context(), "idle", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if left := w.claims(); len(left) != 0 {
			t.Errorf("left: %v", left)
		}
	})
}

// Loops that crash at any write, answers and watches that are lost: each pod has one claim and no more, and none is
// left of pods that have ended.
func TestWhateverCrashesEachPodHasItsClaimOnce(t *testing.T) {
	for seed := range uint64(3) {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				random := rand.New(rand.NewPCG(seed, 1))
				w := &world{t, looptest.New(t, millracetest.API(t))}
				lives := looptest.StartLives(t, w.server, rand.New(rand.NewPCG(seed, 2)), resourceclaim.Entry)
				w.template("one")
				for i := range 40 {
					w.pod(fmt.Sprint("p", i), "node-0", map[string]string{"a": "one", "b": "one"})
					switch random.IntN(4) {
					case 0:
						w.server.DropWatches()
					case 1:
						w.server.HoldWatches(random.IntN(2) == 0)
					}
					time.Sleep(time.Duration(random.IntN(1000)) * time.Millisecond)
					for _, c := range w.claims() {
						if c.Status.Allocation == nil && c.DeletionTimestamp == nil && random.IntN(2) == 0 {
							w.allocate(c.Name, w.podNamed(c.OwnerReferences[0].Name))
						}
					}
					if i >= 20 {
						looptest.Edit(w.server, "pods", "default", fmt.Sprint("p", i-20), func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed })
					}
				}
				w.server.HoldWatches(false)
				lives.Calm()
				time.Sleep(20 * time.Minute)
				have := map[string]int{}
				for _, c := range w.claims() {
					have[c.OwnerReferences[0].Name]++
				}
				for i := range 40 {
					name, want := fmt.Sprint("p", i), 0
					if i >= 20 {
						want = 2
					}
					if have[name] != want {
						t.Errorf("%s has %d claims, want %d", name, have[name], want)
					}
				}
				if lives.Deaths() == 0 {
					t.Error("nothing crashed: the test shows nothing")
				}
			})
		})
	}
}
