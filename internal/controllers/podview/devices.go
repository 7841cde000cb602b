package podview

import (
	"iter"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/millrace/millrace/informer"
)

// A DeviceClaim is a resource claim that a pod uses.
type DeviceClaim struct {
	// Name is what the pod calls it. The claim for extended resources has none.
	Name string
	// Template is what a claim of the pod's own is made from.
	Template string
	// Claim is the name of the claim, once the pod's status has it.
	Claim string
	// Known says that the status tells about the claim: without a name, that none is needed.
	Known bool
}

// Own says that the claim is made for this pod.
func (c *DeviceClaim) Own() bool { return c.Template != "" || c.Name == "" }

var (
	byDeviceClaim = informer.NewIndex(func(p *Pod) []string {
		var keys []string
		for _, c := range p.Devices {
			if c.Claim != "" {
				keys = append(keys, p.Namespace+"/"+c.Claim)
			}
		}
		return keys
	})
	byTemplate = informer.NewIndex(func(p *Pod) []string {
		var keys []string
		for _, c := range p.Devices {
			if c.Template != "" && !c.Known {
				keys = append(keys, p.Namespace+"/"+c.Template)
			}
		}
		return keys
	})
)

// IndexDevices prepares an informer for [WithDevices] and [WaitingFor].
func IndexDevices(pods *informer.Shared[*Pod]) {
	pods.AddIndex(byDeviceClaim)
	pods.AddIndex(byTemplate)
}

// WithDevices ranges over the pods that use a resource claim, whatever became of them.
func WithDevices(pods *informer.Shared[*Pod], namespace, claim string) iter.Seq[*Pod] {
	return pods.By(byDeviceClaim, namespace+"/"+claim)
}

// WaitingFor ranges over the pods whose status has no claim yet of those that are made from a template.
func WaitingFor(pods *informer.Shared[*Pod], namespace, template string) iter.Seq[*Pod] {
	return pods.By(byTemplate, namespace+"/"+template)
}

func devices(pod *corev1.Pod) []DeviceClaim {
	var all []DeviceClaim
	for i := range pod.Spec.ResourceClaims {
		c := DeviceClaim{Name: pod.Spec.ResourceClaims[i].Name}
		if name := pod.Spec.ResourceClaims[i].ResourceClaimName; name != nil {
			c.Claim, c.Known = *name, true
		} else if template := pod.Spec.ResourceClaims[i].ResourceClaimTemplateName; template != nil {
			c.Template = *template
			c.Claim, c.Known = claimInStatus(pod.Status.ResourceClaimStatuses, c.Name)
		}
		all = append(all, c)
	}
	if s := pod.Status.ExtendedResourceClaimStatus; s != nil && s.ResourceClaimName != "" {
		all = append(all, DeviceClaim{Claim: s.ResourceClaimName, Known: true})
	}
	return all
}

func claimInStatus(statuses []corev1.PodResourceClaimStatus, name string) (claim string, known bool) {
	i := slices.IndexFunc(statuses, func(s corev1.PodResourceClaimStatus) bool { return s.Name == name })
	if i < 0 {
		return "", false
	}
	if statuses[i].ResourceClaimName != nil {
		claim = *statuses[i].ResourceClaimName
	}
	return claim, true
}
