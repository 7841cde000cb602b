package devices

import (
	v1 "k8s.io/api/resource/v1"
	"k8s.io/api/resource/v1beta1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/millrace/millrace/internal/server/resource"
)

// Version v1beta1 has other fields in two places. A request for exactly one class of devices has its fields in the
// request itself, and not in exactly. What is known of a device is in basic.

func claimOfBeta1() resource.Serving[*v1.ResourceClaim] {
	s := resource.Alike[*v1.ResourceClaim, v1beta1.ResourceClaim](v1beta1.SchemeGroupVersion.WithKind("ResourceClaim"))
	return joined(s, func(o *v1beta1.ResourceClaim, c *v1.ResourceClaim) {
		requestsToBeta1(o.Spec.Devices.Requests, c.Spec.Devices.Requests)
	}, func(c *v1.ResourceClaim, o *v1beta1.ResourceClaim) {
		requestsFromBeta1(c.Spec.Devices.Requests, o.Spec.Devices.Requests)
	})
}

func templateOfBeta1() resource.Serving[*v1.ResourceClaimTemplate] {
	s := resource.Alike[*v1.ResourceClaimTemplate, v1beta1.ResourceClaimTemplate](v1beta1.SchemeGroupVersion.WithKind("ResourceClaimTemplate"))
	return joined(s, func(o *v1beta1.ResourceClaimTemplate, t *v1.ResourceClaimTemplate) {
		requestsToBeta1(o.Spec.Spec.Devices.Requests, t.Spec.Spec.Devices.Requests)
	}, func(t *v1.ResourceClaimTemplate, o *v1beta1.ResourceClaimTemplate) {
		requestsFromBeta1(t.Spec.Spec.Devices.Requests, o.Spec.Spec.Devices.Requests)
	})
}

func sliceOfBeta1() resource.Serving[*v1.ResourceSlice] {
	s := resource.Alike[*v1.ResourceSlice, v1beta1.ResourceSlice](v1beta1.SchemeGroupVersion.WithKind("ResourceSlice"))
	return joined(s, func(o *v1beta1.ResourceSlice, s *v1.ResourceSlice) {
		for i := range o.Spec.Devices {
			o.Spec.Devices[i].Basic = &v1beta1.BasicDevice{}
			resource.Transcribe(o.Spec.Devices[i].Basic, &s.Spec.Devices[i])
		}
	}, func(s *v1.ResourceSlice, o *v1beta1.ResourceSlice) {
		for i, d := range o.Spec.Devices {
			if d.Basic != nil {
				resource.Transcribe(&s.Spec.Devices[i], d.Basic)
			}
		}
	})
}

// joined also converts what has other fields in the version.
func joined[P resource.Object, Q runtime.Object](s resource.Serving[P], from func(Q, P), to func(P, Q)) resource.Serving[P] {
	alikeFrom, alikeTo := s.From, s.To
	s.From = func(p P) runtime.Object {
		o := alikeFrom(p)
		from(o.(Q), p)
		return o
	}
	s.To = func(o runtime.Object) P {
		p := alikeTo(o)
		to(p, o.(Q))
		return p
	}
	return s
}

func requestsToBeta1(out []v1beta1.DeviceRequest, in []v1.DeviceRequest) {
	for i, r := range in {
		if r.Exactly != nil {
			resource.Transcribe(&out[i], r.Exactly)
		}
	}
}

// requestsFromBeta1 makes a request for exactly one class of each that has any of its fields. Whether they are valid is
// checked later.
func requestsFromBeta1(out []v1.DeviceRequest, in []v1beta1.DeviceRequest) {
	for i, r := range in {
		if e := (v1.ExactDeviceRequest{}); exact(&r, &e) {
			out[i].Exactly = &e
		}
	}
}

func exact(r *v1beta1.DeviceRequest, e *v1.ExactDeviceRequest) bool {
	resource.Transcribe(e, r)
	return e.DeviceClassName != "" || e.Selectors != nil || e.AllocationMode != "" || e.Count != 0 || e.AdminAccess != nil || e.Tolerations != nil || e.Capacity != nil
}
