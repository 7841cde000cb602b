package rules

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/millrace/millrace/internal/scheduler/internal/cluster"
	"github.com/millrace/millrace/internal/scheduler/plugin"
)

var (
	leftover = plugin.Verdict{
		Plugin: (*Devices)(nil).Name(), Reasons: []string{"cannot schedule extended resource claim"}, Lasting: true,
	}
	cannotFit = plugin.Verdict{
		Plugin: (*Devices)(nil).Name(), Reasons: []string{"cannot fit resource"}, Lasting: true,
	}
)

// special is the claim for the extended resources of a pod for which device classes stand. What it asks for depends on
// the node, because nodes may have some of the resources themselves. It is made when a node has been chosen.
type special struct {
	pod   *cluster.Pod
	state *cluster.State
	// prior is the claim of an earlier attempt. The pod can be placed when it has gone.
	prior     *resourcev1.ResourceClaim
	resources []corev1.ResourceName // all that may be claimed, sorted
	variants  map[string]*variant   // by the claimed resources
}

// variant is the special claim for some nodes.
type variant struct {
	claim    *resourcev1.ResourceClaim
	mappings []corev1.ContainerExtendedResourceRequest
}

// newSpecial returns nil if no class stands for what the pod asks for.
func newSpecial(pod *cluster.Pod, state *cluster.State) *special {
	if !slices.ContainsFunc(pod.Extended, func(r cluster.ExtendedRequest) bool { return state.Devices.ClassOf(r.Resource) != nil }) {
		return nil
	}
	s := &special{pod: pod, state: state, variants: make(map[string]*variant)}
	for _, name := range slices.Sorted(maps.Keys(pod.Shape.Requests.Extended)) {
		if pod.Shape.Requests.Extended[name] > 0 && cluster.IsExtended(name) {
			s.resources = append(s.resources, name)
		}
	}
	if c, ok := state.Devices.Special(pod.UID); ok {
		s.prior = c
	}
	return s
}

func (s *special) resourceNames() []corev1.ResourceName {
	if s == nil {
		return nil
	}
	return s.resources
}

// on returns the claim for a node; nil if the pod needs none there. The verdict is the reason why the pod may not go
// there.
func (s *special) on(node *cluster.Node) (*variant, *plugin.Verdict) {
	switch {
	case s == nil:
		return nil, nil
	case s.prior != nil:
		return nil, &leftover
	}
	key, some := make([]byte, len(s.resources)), false
	for i, name := range s.resources {
		if node.Claimed(name) {
			key[i], some = 1, true
		} else if _, ok := node.Allocatable.Extended[name]; !ok {
			return nil, &cannotFit
		}
	}
	if !some {
		return nil, nil
	}
	v, ok := s.variants[string(key)]
	if !ok {
		v = s.variant(key)
		s.variants[string(key)] = v
	}
	return v, nil
}

// variant makes the claim for nodes on which the marked resources are claimed.
func (s *special) variant(marked []byte) *variant {
	v := &variant{claim: s.claim()}
	requests := &v.claim.Spec.Devices.Requests
	for i, name := range s.resources {
		if marked[i] == 1 {
			added, mappings := requestsFor(s.pod.Extended, name, s.state.Devices.ClassOf(name).Name)
			*requests = append(*requests, added...)
			v.mappings = append(v.mappings, mappings...)
		}
	}
	slices.SortFunc(*requests, func(a, b resourcev1.DeviceRequest) int { return cmp.Compare(a.Name, b.Name) })
	return v
}

// claim returns the claim without requests. The name is one that no claim in the API can have.
func (s *special) claim() *resourcev1.ResourceClaim {
	return &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{
		Namespace: s.pod.Key.Namespace, Name: "<extended-resources>", UID: "extended-resources-of-" + s.pod.UID,
		GenerateName: s.pod.Key.Name + "-extended-resources-",
		Annotations:  map[string]string{resourcev1.ExtendedResourceClaimAnnotation: "true"},
		OwnerReferences: []metav1.OwnerReference{{
			APIVersion: "v1", Kind: "Pod", Name: s.pod.Key.Name, UID: s.pod.UID, Controller: new(true),
		}},
	}}
}

// requestsFor returns the requests for devices that stand for a resource, and which containers use which of them. Init
// containers use the devices of containers that begin after they have ended. What they need beyond these is requested
// once, for the one that needs most.
func requestsFor(all []cluster.ExtendedRequest, resource corev1.ResourceName, class string) ([]resourcev1.DeviceRequest, []corev1.ContainerExtendedResourceRequest) {
	var requests []resourcev1.DeviceRequest
	var mappings []corev1.ContainerExtendedResourceRequest
	use := func(by *cluster.ExtendedRequest, request string) {
		mappings = append(mappings, corev1.ContainerExtendedResourceRequest{ContainerName: by.Container, ResourceName: string(resource), RequestName: request})
	}
	request := func(name string, count int64) {
		requests = append(requests, resourcev1.DeviceRequest{Name: name, Exactly: &resourcev1.ExactDeviceRequest{
			DeviceClassName: class, AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: count,
		}})
	}
	var lasting, ending []*cluster.ExtendedRequest
	for i := range all {
		switch r := &all[i]; {
		case r.Resource != resource:
		case r.Ends:
			ending = append(ending, r)
		default:
			lasting = append(lasting, r)
			use(r, r.Request)
			request(r.Request, r.Count)
		}
	}
	var extra *cluster.ExtendedRequest // whose name the additional request has
	most := int64(0)
	var needing []int // mappings that need its name
	for _, r := range ending {
		missing := r.Count
		for _, later := range lasting {
			if later.At > r.At && missing > 0 {
				use(r, later.Request)
				missing -= later.Count
			}
		}
		if missing <= 0 {
			continue
		}
		if missing > most {
			extra, most = r, missing
		}
		needing = append(needing, len(mappings))
		use(r, "")
	}
	if extra != nil {
		request(extra.Request, most)
		for _, i := range needing {
			mappings[i].RequestName = extra.Request
		}
	}
	return requests, mappings
}

// showTimeout is how long a pod waits for the API to show its special claim.
const showTimeout = 2 * time.Minute

// prepareSpecial creates and writes the special claim, and tells the kubelet of it in the pod's status.
func (a *allocation) prepareSpecial(ctx context.Context, access plugin.Access, c *claimChange) error {
	created, err := access.CreateResourceClaim(ctx, fresh(c.was))
	if err != nil {
		return err
	}
	temporary := c.was.UID
	c.was, c.created, c.wanted.UID = created, true, created.UID
	written, err := access.ChangeResourceClaim(ctx, created, func(now *resourcev1.ResourceClaim) error { return a.change(now, c) })
	if err != nil {
		return err
	}
	access.WithState(func(s *cluster.State) { s.Devices.KeepPromise(temporary, written) })
	status := &corev1.PodExtendedResourceClaimStatus{ResourceClaimName: written.Name, RequestMappings: c.special.mappings}
	if err := access.SetExtendedClaim(ctx, a.pod, status); err != nil {
		return fmt.Errorf("update pod %s ExtendedResourceClaimStatus: %w", a.pod.Key, err)
	}
	a.untilShown(ctx, access, claimKey(written))
	return nil
}

// fresh returns a claim without what the API server sets.
func fresh(c *resourcev1.ResourceClaim) *resourcev1.ResourceClaim {
	c = c.DeepCopy()
	c.Name, c.UID = "", types.UID("")
	return c
}

// untilShown waits until the API shows a written claim. A claim that it does not show in time is forgotten: it may have
// been deleted already.
func (a *allocation) untilShown(ctx context.Context, access plugin.Access, key cluster.Key) {
	ctx, cancel := context.WithTimeout(ctx, showTimeout)
	defer cancel()
	for {
		changed := access.Changed()
		waits := false
		access.WithState(func(s *cluster.State) { waits = s.Devices.Assumed(key) })
		if !waits {
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			access.WithState(func(s *cluster.State) { s.Devices.GiveUp(key) })
			return
		}
	}
}

// Undo deletes the special claim, if it was created.
func (a *allocation) Undo(ctx context.Context, access plugin.Access) error {
	for _, c := range a.reserved {
		if c.created {
			return access.DeleteResourceClaim(ctx, c.was)
		}
	}
	return nil
}
