package devicetainteviction

import (
	"slices"
	"sync"
	"time"

	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/millrace/millrace/informer"
	"github.com/millrace/millrace/internal/controllers/podview"
	"github.com/millrace/millrace/loop"
)

const name = "device-taint-eviction-controller"

// Entry is this loop among the others, without metrics.
var Entry = Options{}.Entry()

// Options configure the loop.
type Options struct {
	// Evicted, if set, is called when a pod was deleted, with how much later than it had to go.
	Evicted func(late time.Duration)
}

// Entry is this loop among the others.
func (o Options) Entry() loop.Entry {
	if o.Evicted == nil {
		o.Evicted = func(time.Duration) {}
	}
	return loop.Entry{Name: name, New: o.new}
}

type controller struct {
	Options
	kube     kubernetes.Interface
	recorder loop.Recorder
	now      func() time.Time
	pods     *informer.Shared[*podview.Pod]
	claims   *informer.Shared[*resourcev1.ResourceClaim]
	slices   *informer.Shared[*resourcev1.ResourceSlice]
	rules    *informer.Shared[*resourcev1.DeviceTaintRule]
	writer   *loop.Writer[*resourcev1.DeviceTaintRule]

	mu      sync.Mutex // guards what follows
	doomed  map[types.UID]bool
	evicted map[types.UID]int // by rule
}

var (
	// byDevice finds claims by the devices that are allocated to them.
	byDevice = informer.NewIndex(func(c *resourcev1.ResourceClaim) []string {
		var all []string
		for _, d := range devicesOf(c) {
			all = append(all, device(d.Driver, d.Pool, d.Device))
		}
		return all
	})
	// tainted finds slices by the devices with taints in them.
	tainted = informer.NewIndex(func(s *resourcev1.ResourceSlice) []string {
		var all []string
		for i := range s.Spec.Devices {
			if len(s.Spec.Devices[i].Taints) > 0 {
				all = append(all, device(s.Spec.Driver, s.Spec.Pool.Name, s.Spec.Devices[i].Name))
			}
		}
		return all
	})
)

func device(driver, pool, name string) string { return driver + "/" + pool + "/" + name }

func devicesOf(c *resourcev1.ResourceClaim) []resourcev1.DeviceRequestAllocationResult {
	if c.Status.Allocation == nil {
		return nil
	}
	return c.Status.Allocation.Devices.Results
}

// new makes the loop: one part of it has pods as its keys, the other one rules. Older API servers have no rules.
func (o Options) new(c *loop.Clients) (loop.Runner, error) {
	if c.Discovery != nil {
		has, err := c.Discovery.ServerResourcesForGroupVersion(resourcev1.SchemeGroupVersion.String())
		if apierrors.IsNotFound(err) || err == nil && !slices.ContainsFunc(has.APIResources, func(r metav1.APIResource) bool { return r.Name == "devicetaintrules" }) {
			return nil, nil
		}
	}
	resource := c.Kube.ResourceV1()
	r := &controller{
		Options: o,

		kube: c.Kube, recorder: c.Recorder, now: c.Now, pods: podview.Informer(c),
		claims: loop.Informer(c, informer.For(resource.ResourceClaims(""))),
		slices: loop.Informer(c, informer.For(resource.ResourceSlices())),
		rules:  loop.Informer(c, informer.For(resource.DeviceTaintRules())),
		doomed: map[types.UID]bool{}, evicted: map[types.UID]int{},
	}
	podview.IndexDevices(r.pods)
	r.claims.AddIndex(byDevice)
	r.slices.AddIndex(tainted)
	r.writer = loop.NewWriter(informer.ResourceOf[*resourcev1.DeviceTaintRule](resource.RESTClient(), "devicetaintrules"), r.rules, "")
	pods := &loop.Loop{
		Name: name, Clients: c, Workers: 8, Sync: r.syncPod,
		Watches: []loop.Watch{
			loop.Changes(r.claims, r.podsOfClaim), loop.Changes(r.slices, r.podsOfSlice), loop.Changes(r.rules, r.podsOfRule),
			loop.Self(r.pods, func(_, after *podview.Pod) bool { return after == nil || len(after.Devices) > 0 && after.Node != "" }),
		},
	}
	rules := &loop.Loop{
		Name: name + "-rules", Clients: c, Sync: r.syncRule,
		Watches: []loop.Watch{loop.Self(r.rules, ruleChanged), loop.Reads(r.pods, r.claims, r.slices)},
	}
	return loop.Join(pods, rules), nil
}

func ruleChanged(before, after *resourcev1.DeviceTaintRule) bool {
	return before == nil || after == nil || before.Generation != after.Generation
}

// podsOfClaim are the users of a claim whose devices or users have changed.
func (r *controller) podsOfClaim(before, after *resourcev1.ResourceClaim) []loop.Key {
	var keys []loop.Key
	for _, c := range []*resourcev1.ResourceClaim{before, after} {
		if c != nil {
			keys = append(keys, users(c)...)
		}
	}
	return keys
}

func users(c *resourcev1.ResourceClaim) []loop.Key {
	var keys []loop.Key
	for _, user := range c.Status.ReservedFor {
		if user.APIGroup == "" && user.Resource == "pods" {
			keys = append(keys, loop.Key{Namespace: c.Namespace, Name: user.Name})
		}
	}
	return keys
}

// podsOfSlice are the users of devices with taints.
func (r *controller) podsOfSlice(before, after *resourcev1.ResourceSlice) []loop.Key {
	var keys []loop.Key
	for _, s := range []*resourcev1.ResourceSlice{before, after} {
		if s == nil {
			continue
		}
		for i := range s.Spec.Devices {
			if len(s.Spec.Devices[i].Taints) == 0 {
				continue
			}
			for c := range r.claims.By(byDevice, device(s.Spec.Driver, s.Spec.Pool.Name, s.Spec.Devices[i].Name)) {
				keys = append(keys, users(c)...)
			}
		}
	}
	return keys
}

// podsOfRule are the users of the devices that a rule selects or did select.
func (r *controller) podsOfRule(before, after *resourcev1.DeviceTaintRule) []loop.Key {
	if !ruleChanged(before, after) {
		return nil
	}
	var keys []loop.Key
	for c := range r.claims.List() {
		if slices.ContainsFunc(devicesOf(c), func(d resourcev1.DeviceRequestAllocationResult) bool {
			return selects(before, d.Driver, d.Pool, d.Device) || selects(after, d.Driver, d.Pool, d.Device)
		}) {
			keys = append(keys, users(c)...)
		}
	}
	return keys
}

// selects says whether a rule is about a device. A rule without a selector is about none, one with an empty selector
// about all.
func selects(rule *resourcev1.DeviceTaintRule, driver, pool, device string) bool {
	if rule == nil || rule.Spec.DeviceSelector == nil {
		return false
	}
	s := rule.Spec.DeviceSelector
	return (s.Driver == nil || *s.Driver == driver) && (s.Pool == nil || *s.Pool == pool) && (s.Device == nil || *s.Device == device)
}
