package podspec

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
)

func (x *examiner) resourceClaimNames(p *place, claims []corev1.ResourceClaim) {
	if len(claims) == 0 {
		return
	}
	var known seen[corev1.ResourceClaim]
	list := p.child("claims")
	for i, c := range claims {
		item := list.item(i)
		if !x.requireText(&item, "name", c.Name) {
			continue
		}
		if !known.add(c) {
			if c.Request == "" {
				x.duplicate(&item, c.Name)
			} else {
				x.duplicate(&item, c.Name+"/"+c.Request)
			}
		}
		if !x.claims.has(c.Name) {
			name := item.child("name")
			x.notFound(&name, c.Name)
		}
	}
}

func (x *examiner) resourceClaims(p *place) {
	list := p.child("resourceClaims")
	for i := range x.spec.ResourceClaims {
		c := &x.spec.ResourceClaims[i]
		item := list.item(i)
		name := item.child("name")
		if c.Name == "" {
			x.required(&name, "")
		} else if !x.claims.add(c.Name) {
			x.duplicate(&name, c.Name)
		} else {
			x.invalidAll(&name, c.Name, label(c.Name))
		}
		switch {
		case c.ResourceClaimName != nil && c.ResourceClaimTemplateName != nil:
			x.invalid(&item, quoted(c), "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified")
		case c.ResourceClaimName == nil && c.ResourceClaimTemplateName == nil:
			x.invalid(&item, quoted(c), "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`")
		}
		if n := c.ResourceClaimName; n != nil {
			at := item.child("resourceClaimName")
			x.invalidAll(&at, *n, subdomain(*n))
		}
		if n := c.ResourceClaimTemplateName; n != nil {
			at := item.child("resourceClaimTemplateName")
			x.invalidAll(&at, *n, subdomain(*n))
		}
	}
}

func (x *examiner) resizePolicy(p *place, policies []corev1.ContainerResizePolicy) {
	if len(policies) == 0 {
		return
	}
	var names seen[corev1.ResourceName]
	list := p.child("resizePolicy")
	for i, r := range policies {
		if !names.add(r.ResourceName) {
			item := list.item(i)
			x.duplicate(&item, r.ResourceName)
		}
		if r.ResourceName == "" {
			x.required(&list, "")
		} else {
			oneOf(&x.findings, &list, r.ResourceName, corev1.ResourceCPU, corev1.ResourceMemory)
		}
		if r.RestartPolicy == "" {
			x.required(&list, "")
		} else {
			oneOf(&x.findings, &list, r.RestartPolicy, corev1.NotRequired, corev1.RestartContainer)
		}
		if x.spec.RestartPolicy == corev1.RestartPolicyNever && r.RestartPolicy != corev1.NotRequired {
			x.invalid(&list, r.RestartPolicy, "must be 'NotRequired' when `restartPolicy` is 'Never'")
		}
	}
}

func (x *examiner) podResources(p *place) {
	r := x.spec.Resources
	if r == nil {
		return
	}
	at := p.child("resources")
	if len(r.Claims) > 0 {
		c := at.child("claims")
		x.forbidden(&c, "claims may not be set for Resources at pod-level")
	}
	for _, l := range [...]struct {
		name string
		list corev1.ResourceList
	}{{"limits", r.Limits}, {"requests", r.Requests}} {
		c := at.child(l.name)
		for _, name := range inOrder(l.list) {
			if !isPodResource(name) {
				k := c.keyed(string(name))
				oneOf(&x.findings, &k, name, corev1.ResourceCPU, corev1.ResourceHugePagesPrefix, corev1.ResourceMemory)
			}
		}
	}
	x.requirements(&at, r)
	requests := at.child("requests")
	for name, sum := range containerRequests(x.spec) {
		if have, set := r.Requests[name]; set && sum.Cmp(have) > 0 {
			k := requests.keyed(string(name))
			x.invalid(&k, have.String(), fmt.Sprintf("must be greater than or equal to aggregate container requests of %s", sum.String()))
		}
	}
	x.limitsWithinPod(p, r.Limits)
}

func (x *examiner) limitsWithinPod(p *place, limits corev1.ResourceList) {
	list := p.child("containers")
	for i := range x.spec.Containers {
		for _, name := range inOrder(x.spec.Containers[i].Resources.Limits) {
			limit, whole := x.spec.Containers[i].Resources.Limits[name], limits[name]
			if _, limited := limits[name]; !limited || limit.Cmp(whole) <= 0 {
				continue
			}
			item := list.item(i)
			resources := item.child("resources")
			l := resources.child("limits")
			k := l.keyed(string(name))
			x.invalid(&k, limit.String(), fmt.Sprintf("must be less than or equal to pod limits of %s", whole.String()))
		}
	}
}
