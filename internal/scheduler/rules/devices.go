package rules

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/structured"
	configv1 "k8s.io/kube-scheduler/config/v1"

	"github.com/millrace/millrace/internal/scheduler/internal/cluster"
	"github.com/millrace/millrace/internal/scheduler/plugin"
)

// Devices places pods where their resource claims can have their devices, and allocates the devices.
type Devices struct {
	expressions *cel.Cache
	doubts      map[string]*doubt // by expression
	timeout     time.Duration     // of binding conditions
}

// DevicesOptions are the arguments of the rule. The zero value has kube-scheduler's defaults.
type DevicesOptions struct {
	// BindingTimeout is how long a pod waits until its devices are ready for it. 0 means 10 minutes.
	BindingTimeout time.Duration
}

// NewDevices returns the rule.
func NewDevices(o DevicesOptions) *Devices {
	return &Devices{
		expressions: cel.NewCache(1000, cel.Features{EnableConsumableCapacity: true}),
		doubts:      make(map[string]*doubt),
		timeout:     cmp.Or(o.BindingTimeout, configv1.DynamicResourcesBindingTimeoutDefault),
	}
}

// allocatorFeatures are the features that are enabled by default in Kubernetes.
var allocatorFeatures = structured.Features{
	AdminAccess: true, PrioritizedList: true, PartitionableDevices: true, DeviceTaints: true, ConsumableCapacity: true,
	DeviceBindingAndStatus: true,
}

var (
	notOnNode = plugin.Verdict{
		Plugin: (*Devices)(nil).Name(), Reasons: []string{"resourceclaim not available on the node"}, Lasting: true,
	}
	noDevices = plugin.Verdict{
		Plugin: (*Devices)(nil).Name(), Reasons: []string{"cannot allocate all claims"}, Lasting: true,
	}
)

// Name is DynamicResources.
func (*Devices) Name() string { return "DynamicResources" }

// Late implements [plugin.Late]: the rule is reported after affinity.
func (*Devices) Late() {}

// RequeuesOn lists everything about devices, new nodes, labels, and what nodes have: an extended resource of the node's
// own needs no claim.
func (*Devices) RequeuesOn() cluster.Change {
	return cluster.DeviceChanged | cluster.ExtendedChanged | cluster.NodeAdded | cluster.NodeRoom | cluster.NodeLabels
}

// Open reads the pod's claims.
func (d *Devices) Open(pod *cluster.Pod, state *cluster.State) (plugin.Case, error) {
	if len(pod.Claims)+len(pod.Extended) == 0 {
		return nil, nil
	}
	a := &allocation{rule: d, pod: pod, state: state}
	for i := range pod.Claims {
		c, err := claimOf(pod, &pod.Claims[i], state)
		switch {
		case err != nil:
			return nil, err
		case c == nil:
			continue
		case c.Status.Allocation == nil:
			if err := checkClasses(c, state); err != nil {
				return nil, err
			}
			a.open = append(a.open, c)
			if a.ratings == nil && hasAlternatives(c) {
				a.ratings = make(map[string]int64)
			}
		default:
			had, err := newAllocated(c)
			if err != nil {
				return nil, err
			}
			had.lost = d.lost(c, time.Now())
			a.had = append(a.had, had)
		}
	}
	a.special = newSpecial(pod, state)
	if len(a.open)+len(a.had) == 0 && a.special == nil {
		return nil, nil
	}
	return a, nil
}

// claimOf returns a claim; nil if the pod does not need it.
func claimOf(pod *cluster.Pod, ref *cluster.PodClaim, state *cluster.State) (*resourcev1.ResourceClaim, error) {
	if ref.Pending {
		return nil, plugin.Pending(fmt.Sprintf("pod %q: ResourceClaim not created yet", pod.Key))
	}
	if ref.Name == "" {
		return nil, nil
	}
	c, ok := state.Devices.Claim(cluster.Key{Namespace: pod.Key.Namespace, Name: ref.Name})
	switch {
	case !ok:
		return nil, plugin.Pending(fmt.Sprintf("resourceclaim.resource.k8s.io %q not found", ref.Name))
	case c.DeletionTimestamp != nil:
		return nil, plugin.Pending(fmt.Sprintf("resourceclaim %q is being deleted", c.Name))
	case ref.Own && !metav1.IsControlledBy(c, &metav1.ObjectMeta{UID: pod.UID, Name: pod.Key.Name}):
		return nil, plugin.Pending(fmt.Sprintf("ResourceClaim %s/%s was not created for Pod %s (Pod is not owner)", c.Namespace, c.Name, pod.Key))
	}
	return c, nil
}

func checkClasses(c *resourcev1.ResourceClaim, state *cluster.State) error {
	check := func(request, class string) error {
		if class == "" {
			return fmt.Errorf("request %s: unsupported request type", request)
		}
		if _, err := state.Devices.Get(class); err != nil {
			return plugin.Refusal(fmt.Sprintf("request %s: device class %s does not exist", request, class))
		}
		return nil
	}
	for i := range c.Spec.Devices.Requests {
		request := &c.Spec.Devices.Requests[i]
		switch {
		case request.Exactly != nil:
			if err := check(request.Name, request.Exactly.DeviceClassName); err != nil {
				return err
			}
		case len(request.FirstAvailable) == 0:
			return plugin.Refusal(fmt.Sprintf("resource claim %s/%s, request %s: unknown request type", c.Namespace, c.Name, request.Name))
		}
		for j := range request.FirstAvailable {
			sub := &request.FirstAvailable[j]
			if err := check(request.Name+"/"+sub.Name, sub.DeviceClassName); err != nil {
				return err
			}
		}
	}
	return nil
}

// allocation is the rule's case for one pod.
type allocation struct {
	rule  *Devices
	pod   *cluster.Pod
	state *cluster.State
	open  []*resourcev1.ResourceClaim // claims without devices
	had   []allocated
	// special is the claim for extended resources; nil if the pod needs none.
	special *special
	// ratings are those of nodes where the devices can be allocated, if the claims have alternatives.
	ratings map[string]int64

	reserved []claimChange
	node     string // for which devices are reserved
}

// claimChange is a claim when the node was chosen, and as it must become.
type claimChange struct {
	was, wanted *resourcev1.ResourceClaim
	allocates   bool // the devices are allocated for this pod
	// special is the variant of the special claim that this is; nil for other claims.
	special *variant
	created bool // the special claim exists
}

// allocated is a claim that has its devices, and the nodes that can use them; nil: all.
type allocated struct {
	claim *resourcev1.ResourceClaim
	nodes *nodeaffinity.NodeSelector
	// lost means that the devices will not become ready for the pod.
	lost bool
	// unavailable means that a node was refused because of it.
	unavailable bool
}

func newAllocated(c *resourcev1.ResourceClaim) (allocated, error) {
	a := allocated{claim: c}
	if selector := c.Status.Allocation.NodeSelector; selector != nil {
		nodes, err := nodeaffinity.NewNodeSelector(selector)
		if err != nil {
			return allocated{}, err
		}
		a.nodes = nodes
	}
	return a, nil
}

func nodeObject(node *cluster.Node) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node.Name, Labels: node.Labels}}
}

// Filter refuses nodes that cannot use the allocated devices, and nodes where the others cannot be allocated.
func (a *allocation) Filter(node *cluster.Node) *plugin.Verdict {
	special, refused := a.special.on(node)
	if refused != nil {
		return refused
	}
	for i := range a.had {
		had := &a.had[i]
		if had.lost || had.nodes != nil && !had.nodes.Match(nodeObject(node)) {
			had.unavailable = true
			return &notOnNode
		}
	}
	claims := a.unallocated(special)
	results, err := a.allocate(node, claims)
	switch {
	case err != nil:
		failed := errors.Is(err, structured.ErrFailedAllocationOnNode)
		return &plugin.Verdict{Plugin: a.rule.Name(), Reasons: []string{err.Error()}, Lasting: true, Broken: !failed}
	case results == nil && len(claims) > 0:
		return &noDevices
	}
	a.rate(node, results)
	return nil
}

// unallocated returns the claims that need devices on a node where the special claim is this variant.
func (a *allocation) unallocated(special *variant) []*resourcev1.ResourceClaim {
	if special == nil {
		return a.open
	}
	return append(a.open[:len(a.open):len(a.open)], special.claim)
}

// allocate finds devices on a node for claims without devices; nil if there are none.
func (a *allocation) allocate(node *cluster.Node, claims []*resourcev1.ResourceClaim) ([]resourcev1.AllocationResult, error) {
	if len(claims) == 0 {
		return nil, nil
	}
	ctx := context.Background() // the allocator uses it for logs only
	devices := &a.state.Devices
	allocator, err := structured.NewAllocator(ctx, allocatorFeatures, devices.Taken(), devices, devices.SlicesFor(node.Name), a.rule.expressions)
	if err != nil {
		return nil, err
	}
	return allocator.Allocate(ctx, nodeObject(node), claims)
}
