package node

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/millrace/millrace/internal/demand"
	"github.com/millrace/millrace/internal/server/auth"
	"github.com/millrace/millrace/internal/server/registry"
	"github.com/millrace/millrace/internal/server/resource"
)

// restrictAudience gives a node tokens for those audiences that its pod asks for, and for those that a role allows.
func (n *restriction) restrictAudience(ctx context.Context, p *corev1.Pod, audiences []string, c *registry.Change) error {
	audience := ""
	switch len(audiences) {
	case 0:
	case 1:
		audience = audiences[0]
	default:
		return errors.New("node may only request 0 or 1 audiences")
	}
	if ok, err := n.asksFor(ctx, p, audience); ok || err != nil {
		return err
	}
	call := resource.CallFrom(ctx)
	user := auth.User{Name: call.User, UID: call.UID, Groups: call.Groups, Extra: call.Extra}
	if n.may != nil && n.may.Authorize(ctx, auth.Attributes{
		User: user, Verb: "request-serviceaccounts-token-audience", IsResource: true,
		Version: "v1", Resource: audience, Namespace: c.Namespace, Name: c.Name,
	}).Allowed() {
		return nil
	}
	return fmt.Errorf("%s is not authorized to request tokens for audience %q", user.Name, audience)
}

// asksFor tells whether a volume of a pod needs a token for an audience.
func (n *restriction) asksFor(ctx context.Context, p *corev1.Pod, audience string) (bool, error) {
	for i := range p.Spec.Volumes {
		v := &p.Spec.Volumes[i]
		if v.Projected != nil {
			for _, s := range v.Projected.Sources {
				if s.ServiceAccountToken != nil && s.ServiceAccountToken.Audience == audience {
					return true, nil
				}
			}
			continue
		}
		driver, err := n.driverOf(ctx, p, v)
		if err != nil {
			return false, err
		}
		if ok, err := n.driverAsksFor(ctx, driver, audience); ok || err != nil {
			return ok, err
		}
	}
	return false, nil
}

// driverOf is the CSI driver of a volume, or empty.
func (n *restriction) driverOf(ctx context.Context, p *corev1.Pod, v *corev1.Volume) (string, error) {
	if v.CSI != nil {
		return v.CSI.Driver, nil
	}
	claimed := demand.Claim(p.Name, v)
	if claimed == "" {
		return "", nil
	}
	pvc, err := read[*corev1.PersistentVolumeClaim](ctx, n.cluster, schema.GroupResource{Resource: "persistentvolumeclaims"}, p.Namespace, claimed)
	if pvc == nil || err != nil {
		return "", err
	}
	pv, err := read[*corev1.PersistentVolume](ctx, n.cluster, volumes, "", pvc.Spec.VolumeName)
	if pv == nil || pv.Spec.CSI == nil || err != nil {
		return "", err
	}
	return pv.Spec.CSI.Driver, nil
}

func (n *restriction) driverAsksFor(ctx context.Context, driver, audience string) (bool, error) {
	if driver == "" {
		return false, nil
	}
	d, err := read[*storagev1.CSIDriver](ctx, n.cluster, schema.GroupResource{Group: storagev1.GroupName, Resource: "csidrivers"}, "", driver)
	if d == nil || err != nil {
		return false, err
	}
	for _, r := range d.Spec.TokenRequests {
		if r.Audience == audience {
			return true, nil
		}
	}
	return false, nil
}
