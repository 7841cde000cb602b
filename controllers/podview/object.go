package podview

import (
	"slices"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GetObjectKind makes a view an object for informers. It has no kind of its own.
func (p *Pod) GetObjectKind() schema.ObjectKind { return schema.EmptyObjectKind }

// DeepCopyObject copies the view. What it holds beside its metadata is never
// changed by anyone, so the elements of its lists may be shared.
func (p *Pod) DeepCopyObject() runtime.Object {
	out := *p
	out.ObjectMeta = *p.ObjectMeta.DeepCopy()
	out.IPs, out.Ports = slices.Clone(p.IPs), slices.Clone(p.Ports)
	out.Tolerations, out.Reasons, out.Exits = slices.Clone(p.Tolerations), slices.Clone(p.Reasons), slices.Clone(p.Exits)
	return &out
}
