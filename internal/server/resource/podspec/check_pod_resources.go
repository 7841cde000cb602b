package podspec

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/millrace/millrace/internal/demand"
)

func (x *examiner) resourceClaimNames(p fieldPath, claims []corev1.ResourceClaim) {
	if len(claims) == 0 {
		return
	}
	var known seen[corev1.ResourceClaim]
	var wholes, parts seen[string]
	list := p.child("claims")
	for i, c := range claims {
		item := list.item(i)
		if c.Name == "" {
			x.required(item, "")
			continue
		}
		switch {
		case c.Request == "":
			// A claim must not be listed both as a whole and with one of its requests.
			if !wholes.add(c.Name) || parts.has(c.Name) {
				x.duplicate(item, c.Name)
			}
		case !known.add(c):
			x.duplicate(item, c.Name+"/"+c.Request)
		case wholes.has(c.Name):
			x.duplicate(item, c.Name)
		}
		if c.Request != "" {
			parts.add(c.Name)
			x.invalidAll(item.child("request"), c.Request, label(c.Request))
		}
		if !x.claims.has(c.Name) {
			x.notFoundAmong(item, c.Name, "must be one of the names in pod.spec.resourceClaims"+x.claimNames())
		}
	}
}

// claimNames returns the names of the pod's claims.
func (x *examiner) claimNames() string {
	var names []string
	for i := range x.spec.ResourceClaims {
		if name := x.spec.ResourceClaims[i].Name; name != "" {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return " which is empty"
	}
	slices.Sort(names)
	return ": " + strings.Join(slices.Compact(names), ", ")
}

func (x *examiner) resourceClaims(p fieldPath) {
	list := p.child("resourceClaims")
	for i := range x.spec.ResourceClaims {
		c := &x.spec.ResourceClaims[i]
		item := list.item(i)
		name := item.child("name")
		if c.Name == "" {
			x.required(name, "")
		} else if !x.claims.add(c.Name) {
			x.duplicate(name, c.Name)
		} else {
			x.invalidAll(name, c.Name, label(c.Name))
		}
		switch {
		case c.ResourceClaimName != nil && c.ResourceClaimTemplateName != nil:
			x.invalid(item, quoted(c), "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified")
		case c.ResourceClaimName == nil && c.ResourceClaimTemplateName == nil:
			x.invalid(item, quoted(c), "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`")
		}
		if n := c.ResourceClaimName; n != nil {
			x.invalidAll(item.child("resourceClaimName"), *n, subdomain(*n))
		}
		if n := c.ResourceClaimTemplateName; n != nil {
			x.invalidAll(item.child("resourceClaimTemplateName"), *n, subdomain(*n))
		}
	}
}

func (x *examiner) resizePolicy(p fieldPath, policies []corev1.ContainerResizePolicy) {
	if len(policies) == 0 {
		return
	}
	var names seen[corev1.ResourceName]
	list := p.child("resizePolicy")
	for i, r := range policies {
		if !names.add(r.ResourceName) {
			x.duplicate(list.item(i), r.ResourceName)
		}
		if r.ResourceName == "" {
			x.required(list, "")
		} else {
			oneOf(&x.findings, list, r.ResourceName, corev1.ResourceCPU, corev1.ResourceMemory)
		}
		if r.RestartPolicy == "" {
			x.required(list, "")
		} else {
			oneOf(&x.findings, list, r.RestartPolicy, corev1.NotRequired, corev1.RestartContainer)
		}
		if x.spec.RestartPolicy == corev1.RestartPolicyNever && r.RestartPolicy != corev1.NotRequired {
			x.invalid(list, r.RestartPolicy, "must be 'NotRequired' when `restartPolicy` is 'Never'")
		}
	}
}

func (x *examiner) podResources(p fieldPath) {
	r := x.spec.Resources
	if r == nil {
		return
	}
	at := p.child("resources")
	if x.spec.OS != nil && x.spec.OS.Name == corev1.Windows {
		x.forbidden(at, "may not be set for a windows pod")
		return
	}
	if r.Claims != nil {
		x.forbidden(at.child("claims"), "claims may not be set for Resources at pod-level")
	}
	x.requirements(at, r, true)
	x.resourceClaimNames(at, r.Claims)
	x.sumsWithinPod(at, r)
	x.limitsWithinPod(at, r.Limits)
}

func (f *findings) podResourceName(p fieldPath, name corev1.ResourceName) {
	switch messages := qualifiedName(string(name)); {
	case messages != nil:
		f.invalidAll(p, string(name), messages)
	case !strings.Contains(string(name), "/") && !isStandard(name):
		f.invalid(p, string(name), notStandard)
	case !isPodResource(name):
		oneOf(f, p, name, corev1.ResourceCPU, corev1.ResourceHugePagesPrefix, corev1.ResourceMemory)
	}
}

// sumsWithinPod requires pod-level requests to be at least the sum of the containers' requests.
func (x *examiner) sumsWithinPod(p fieldPath, r *corev1.ResourceRequirements) {
	requests := p.child("requests")
	sums := demand.ContainerRequests(x.spec)
	for _, name := range inOrder(sums) {
		sum := sums[name]
		if have, set := r.Requests[name]; set && sum.Cmp(have) > 0 {
			x.invalid(requests.keyed(string(name)), have.String(), "must be greater than or equal to aggregate container requests of "+sum.String())
		}
	}
	limits := p.child("limits")
	sums = demand.ContainerLimits(x.spec)
	for _, name := range inOrder(sums) {
		sum := sums[name]
		if have, set := r.Limits[name]; set && isHugePages(name) && sum.Cmp(have) > 0 {
			x.invalid(limits.keyed(string(name)), have.String(), "must be greater than or equal to aggregate container limits of "+sum.String())
		}
	}
}

func (x *examiner) limitsWithinPod(p fieldPath, limits corev1.ResourceList) {
	list := p.child("containers")
	for i := range x.spec.Containers {
		for _, name := range inOrder(x.spec.Containers[i].Resources.Limits) {
			limit, whole := x.spec.Containers[i].Resources.Limits[name], limits[name]
			if _, limited := limits[name]; !limited || limit.Cmp(whole) <= 0 {
				continue
			}
			item := list.item(i)
			k := item.keyed(string(name))
			x.invalid(k.child("limits"), limit.String(), fmt.Sprintf("must be less than or equal to pod limits of %s", whole.String()))
		}
	}
}
