package resourceclaim

import (
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/millrace/millrace/informer"
	"github.com/millrace/millrace/internal/controllers/internal/meter"
	"github.com/millrace/millrace/internal/controllers/podview"
	"github.com/millrace/millrace/loop"
)

const (
	name = "resourceclaim-controller"
	// manager owns the fields of pods' status that the loop applies.
	manager = "ResourceClaimController"
	// madeFor is the annotation of claims from templates: what the pod calls the claim.
	madeFor = "resource.kubernetes.io/pod-claim-name"
	// extended is the annotation of claims for extended resources.
	extended = "resource.kubernetes.io/extended-resource-claim"
)

// Entry is this loop among the others, whose work nobody counts.
var Entry = Options{}.Entry()

// Options of the loop. The zero value works.
type Options struct {
	// Metrics counts what the loop does.
	Metrics *Metrics
}

// Entry is this loop among the others.
func (o Options) Entry() loop.Entry {
	return loop.Entry{Name: name, Aliases: []string{"resource-claim-controller"}, Source: "resource_claim", New: o.new}
}

type controller struct {
	kube      kubernetes.Interface
	recorder  loop.Recorder
	metrics   *Metrics
	pods      *informer.Shared[*podview.Pod]
	claims    *informer.Shared[*resourcev1.ResourceClaim]
	templates *informer.Shared[*resourcev1.ResourceClaimTemplate]
	writer    *loop.Writer[*resourcev1.ResourceClaim]
}

// byOwner finds the claims that were made for a pod.
var byOwner = informer.NewIndex(func(c *resourcev1.ResourceClaim) []string {
	if owner := podOf(c); owner != nil {
		return []string{string(owner.UID)}
	}
	return nil
})

// podOf is the pod that a claim was made for, or nil.
func podOf(c *resourcev1.ResourceClaim) *metav1.OwnerReference {
	if owner := metav1.GetControllerOfNoCopy(c); owner != nil && owner.APIVersion == "v1" && owner.Kind == "Pod" {
		return owner
	}
	return nil
}

// new makes the loop: one part of it has pods as its keys, the other one claims. Older API servers have no claims.
func (o Options) new(c *loop.Clients) (loop.Runner, error) {
	if o.Metrics == nil {
		o.Metrics = NewMetrics(meter.New(nil))
	}
	if c.Discovery != nil {
		if _, err := c.Discovery.ServerResourcesForGroupVersion(resourcev1.SchemeGroupVersion.String()); apierrors.IsNotFound(err) {
			return nil, nil
		}
	}
	r := &controller{
		kube: c.Kube, recorder: c.Recorder, metrics: o.Metrics, pods: podview.Informer(c),
		claims:    loop.Informer(c, informer.For(c.Kube.ResourceV1().ResourceClaims(""))),
		templates: loop.Informer(c, informer.For(c.Kube.ResourceV1().ResourceClaimTemplates(""))),
	}
	podview.IndexDevices(r.pods)
	r.claims.AddIndex(byOwner)
	r.writer = loop.NewWriter(informer.ResourceOf[*resourcev1.ResourceClaim](c.Kube.ResourceV1().RESTClient(), "resourceclaims"), r.claims, "")
	o.Metrics.Count(r.count)
	pods := &loop.Loop{
		Name: name, Clients: c, Workers: 5, Sync: r.syncPod,
		Watches: []loop.Watch{
			loop.Self(r.pods, mayNeed), loop.Changes(r.claims, r.podsOfClaim), loop.Changes(r.templates, r.podsOfTemplate),
		},
	}
	claims := &loop.Loop{
		Name: name + "-claims", Clients: c, Workers: 5, Sync: r.syncClaim,
		Watches: []loop.Watch{loop.Self(r.claims, stays), loop.Changes(r.pods, r.claimsOfPod)},
	}
	return loop.Join(pods, claims), nil
}

// mayNeed lets pods pass that may need claims, or be noted as their users.
func mayNeed(_, after *podview.Pod) bool {
	return after != nil && len(after.Devices) > 0 && after.DeletionTimestamp == nil
}

func stays(_, after *resourcev1.ResourceClaim) bool { return after != nil }

// podsOfClaim are the pods for which something has to be done when a claim comes, goes, is allocated, or has room for
// another user.
func (r *controller) podsOfClaim(before, after *resourcev1.ResourceClaim) []loop.Key {
	some := after
	if some == nil {
		some = before
	}
	if before != nil && after != nil && (before.Status.Allocation == nil) == (after.Status.Allocation == nil) &&
		len(before.Status.ReservedFor) <= len(after.Status.ReservedFor) {
		return nil
	}
	var keys []loop.Key
	if owner := podOf(some); owner != nil {
		keys = append(keys, loop.Key{Namespace: some.Namespace, Name: owner.Name})
	}
	for pod := range podview.WithDevices(r.pods, some.Namespace, some.Name) {
		keys = append(keys, informer.KeyOf(pod))
	}
	return keys
}

// podsOfTemplate are the pods that wait for a template.
func (r *controller) podsOfTemplate(before, after *resourcev1.ResourceClaimTemplate) []loop.Key {
	if before != nil || after == nil {
		return nil
	}
	var keys []loop.Key
	for pod := range podview.WaitingFor(r.pods, after.Namespace, after.Name) {
		keys = append(keys, informer.KeyOf(pod))
	}
	return keys
}

// claimsOfPod are the claims of a pod that does not need them any more.
func (r *controller) claimsOfPod(before, after *podview.Pod) []loop.Key {
	if after != nil && !done(after) {
		return nil
	}
	var keys []loop.Key
	for _, pod := range []*podview.Pod{before, after} {
		if pod == nil {
			continue
		}
		for _, c := range pod.Devices {
			if c.Claim != "" {
				keys = append(keys, loop.Key{Namespace: pod.Namespace, Name: c.Claim})
			}
		}
		for key := range r.claims.Keys(byOwner, string(pod.UID)) {
			keys = append(keys, key)
		}
	}
	return keys
}

// done says that a pod will never use its claims again.
func done(pod *podview.Pod) bool {
	return pod.Finished() || pod.DeletionTimestamp != nil && pod.Node == ""
}
