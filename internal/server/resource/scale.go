package resource

import (
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Scaling is a Scale without its Go type.
type Scaling struct {
	Get func(Object) *autoscalingv1.Scale
	Set func(Object, int32)
	// Missing returns an error if an object has no number of replicas; if Missing is nil, every object has one.
	Missing func(Object) error
	// Checked says that the kind's rules validate the number themselves.
	Checked bool
}

func (s *Scale[P]) erase() *Scaling {
	return &Scaling{
		Set: func(o Object, n int32) { *s.Replicas(o.(P)) = n },
		Get: func(o Object) *autoscalingv1.Scale {
			p := o.(P)
			return &autoscalingv1.Scale{
				TypeMeta: metav1.TypeMeta{APIVersion: "autoscaling/v1", Kind: "Scale"},
				ObjectMeta: metav1.ObjectMeta{
					Name: p.GetName(), Namespace: p.GetNamespace(), UID: p.GetUID(),
					ResourceVersion: p.GetResourceVersion(), CreationTimestamp: p.GetCreationTimestamp(),
				},
				Spec:   autoscalingv1.ScaleSpec{Replicas: *s.Replicas(o.DeepCopyObject().(P))},
				Status: autoscalingv1.ScaleStatus{Replicas: s.Status(p), Selector: s.Selector(p)},
			}
		},
	}
}
