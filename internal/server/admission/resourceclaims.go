package admission

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"github.com/millrace/millrace/internal/server/auth"
	"github.com/millrace/millrace/internal/server/registry"
	"github.com/millrace/millrace/internal/server/resource"
)

// resourceClaims checks what claims of devices may contain, depending on the labels of their namespace and on the
// permissions of the caller. In Kubernetes it is a part of validation, so no flag switches it off.
func (cl *cluster) resourceClaims(a auth.Authorizer) registry.Admission {
	return registry.Admission{Name: "ResourceClaims", Check: func(ctx context.Context, c *registry.Change) field.ErrorList {
		creates := c.Operation == registry.Create && c.View == ""
		switch o := c.Object.(type) {
		case *resourcev1.ResourceClaimTemplate:
			if creates {
				return cl.checkRequests(ctx, c.Namespace, o.Spec.Spec.Devices.Requests)
			}
		case *resourcev1.ResourceClaim:
			old, _ := c.Old.(*resourcev1.ResourceClaim)
			switch {
			case creates:
				return cl.checkRequests(ctx, c.Namespace, o.Spec.Devices.Requests)
			case old != nil && c.View == "status":
				return cl.checkClaimStatus(ctx, c, a, &o.Status, &old.Status)
			}
		}
		return nil
	}}
}

// checkRequests wants a label of the namespace if a request has access to devices that are in use. Alternatives cannot
// have it. Templates name the same path, as in Kubernetes.
func (cl *cluster) checkRequests(ctx context.Context, namespace string, all []resourcev1.DeviceRequest) field.ErrorList {
	i := slices.IndexFunc(all, func(r resourcev1.DeviceRequest) bool {
		return r.Exactly != nil && ptr.Deref(r.Exactly.AdminAccess, false)
	})
	if i < 0 {
		return nil
	}
	return cl.checkAdminLabel(ctx, namespace, field.NewPath("spec", "devices", "requests").Index(i).Child("adminAccess"))
}

func (cl *cluster) checkClaimStatus(ctx context.Context, c *registry.Change, a auth.Authorizer, now, old *resourcev1.ResourceClaimStatus) field.ErrorList {
	var errs field.ErrorList
	if i := adminResult(now.Allocation); i >= 0 && adminResult(old.Allocation) < 0 {
		errs = cl.checkAdminLabel(ctx, c.Namespace, field.NewPath("status", "allocation", "devices", "results").Index(i).Child("adminAccess"))
	}
	if a == nil {
		return errs
	}
	p := claimPermissions{a, resource.CallFrom(ctx), c}
	errs = append(errs, p.checkBinding(ctx, now, old)...)
	return append(errs, p.checkDevices(ctx, now, old)...)
}

// adminResult returns the index of the first device that is allocated with administrator access, or -1.
func adminResult(a *resourcev1.AllocationResult) int {
	if a == nil {
		return -1
	}
	return slices.IndexFunc(a.Devices.Results, func(r resourcev1.DeviceRequestAllocationResult) bool { return ptr.Deref(r.AdminAccess, false) })
}

// checkAdminLabel reads the newest state of the namespace: a label that has been removed must not count.
func (cl *cluster) checkAdminLabel(ctx context.Context, namespace string, path *field.Path) field.ErrorList {
	ns, err := cl.namespaces.newest(ctx, "", namespace)
	switch {
	case err != nil:
		return field.ErrorList{field.InternalError(path, fmt.Errorf("could not retrieve namespace to verify admin access: %w", err))}
	case ns.Labels[resourcev1.DRAAdminNamespaceLabelKey] == "true":
		return nil
	}
	return field.ErrorList{field.Forbidden(path, fmt.Sprintf("admin access to devices requires the `%s: true` label on the containing namespace", resourcev1.DRAAdminNamespaceLabelKey))}
}

// claimPermissions asks whether the caller may write the parts of a claim's status. Each part has a subresource of its
// own for that, which exists for authorization only.
type claimPermissions struct {
	auth.Authorizer
	call   resource.Call
	change *registry.Change
}

// attributes returns what the authorizer is asked, without verb and subresource.
func (p *claimPermissions) attributes() auth.Attributes {
	at := auth.Attributes{
		User:  auth.User{Name: p.call.User, UID: p.call.UID, Groups: p.call.Groups, Extra: p.call.Extra},
		Group: resourcev1.GroupName, Version: "v1", Resource: "resourceclaims", IsResource: true,
	}
	if f := p.change.Served(); f != nil {
		at.Version = f.Version
	}
	return at
}

func (p *claimPermissions) verb() string {
	if p.call.Verb == "patch" {
		return "patch"
	}
	return "update"
}

// checkBinding checks a change of the allocation or of the reservations. The permission is one for all namespaces, as
// in Kubernetes.
func (p *claimPermissions) checkBinding(ctx context.Context, now, old *resourcev1.ResourceClaimStatus) field.ErrorList {
	if equality.Semantic.DeepEqual(now.Allocation, old.Allocation) && equality.Semantic.DeepEqual(now.ReservedFor, old.ReservedFor) {
		return nil
	}
	at := p.attributes()
	at.Verb, at.Subresource = p.verb(), "binding"
	v := p.Authorize(ctx, at)
	if v.Allowed() {
		return nil
	}
	return field.ErrorList{field.Forbidden(field.NewPath("status", "allocation"), fmt.Sprintf(
		"changing status.allocation or status.reservedFor requires resource=%q, verb=%q permission: %v", "resourceclaims/binding", at.Verb, auth.Forbidden(at, v)))}
}

// checkDevices checks a change of what drivers say about their devices. A claim that is no longer allocated loses that
// anyway.
func (p *claimPermissions) checkDevices(ctx context.Context, now, old *resourcev1.ResourceClaimStatus) field.ErrorList {
	if now.Allocation == nil {
		return nil
	}
	verbs := []string{"arbitrary-node:" + p.verb()}
	if node := nodeOf(p.call); node != "" && node == nodeOfAllocation(now.Allocation) {
		verbs = []string{"associated-node:" + p.verb(), verbs[0]}
	}
	var errs field.ErrorList
	for _, driver := range changedDrivers(now.Devices, old.Devices) {
		if refused := p.refuseDriver(ctx, driver, verbs); refused != nil {
			errs = append(errs, field.Forbidden(field.NewPath("status", "devices"), fmt.Sprintf(
				"changing status.devices requires resource=%q, verb=\"%v\" permission: %v", "resourceclaims/driver", verbs, refused)))
		}
	}
	return errs
}

// refuseDriver returns the refusal of the first verb, unless one of them is allowed.
func (p *claimPermissions) refuseDriver(ctx context.Context, driver string, verbs []string) error {
	var first error
	for _, verb := range verbs {
		at := p.attributes()
		at.Verb, at.Subresource, at.Namespace, at.Name = verb, "driver", p.change.Namespace, driver
		v := p.Authorize(ctx, at)
		if v.Allowed() {
			return nil
		}
		if first == nil {
			first = auth.Forbidden(at, v)
		}
	}
	return first
}

// changedDrivers returns the drivers whose devices differ, sorted. The order of devices does not matter.
func changedDrivers(now, old []resourcev1.AllocatedDeviceStatus) []string {
	changed := map[string]bool{}
	for _, pair := range [][2][]resourcev1.AllocatedDeviceStatus{{now, old}, {old, now}} {
		for _, d := range pair[0] {
			if !slices.ContainsFunc(pair[1], func(o resourcev1.AllocatedDeviceStatus) bool { return equality.Semantic.DeepEqual(d, o) }) {
				changed[d.Driver] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(changed))
}

// nodeOf returns the node of the pod whose service account makes the request, or nothing.
func nodeOf(call resource.Call) string {
	if names := call.Extra["authentication.kubernetes.io/node-name"]; len(names) == 1 && strings.HasPrefix(call.User, auth.AccountPrefix) {
		return names[0]
	}
	return ""
}

// nodeOfAllocation returns the node that an allocation selects by its name and by nothing else, or nothing.
func nodeOfAllocation(a *resourcev1.AllocationResult) string {
	if a.NodeSelector == nil || len(a.NodeSelector.NodeSelectorTerms) != 1 {
		return ""
	}
	term := a.NodeSelector.NodeSelectorTerms[0]
	if len(term.MatchExpressions) != 0 || len(term.MatchFields) != 1 {
		return ""
	}
	if f := term.MatchFields[0]; f.Key == "metadata.name" && f.Operator == "In" && len(f.Values) == 1 {
		return f.Values[0]
	}
	return ""
}
