package past

import (
	networkingv1 "k8s.io/api/networking/v1"
	networkingv1beta1 "k8s.io/api/networking/v1beta1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/millrace/millrace/internal/server/resource"
)

func networking(k byName) {
	gv := networkingv1beta1.SchemeGroupVersion
	add(k, "networking.k8s.io", "ingresses", alike(gv, "Ingress", func(now *networkingv1.Ingress, old *networkingv1beta1.Ingress) {
		(&ingressSpec{old.Spec}).write(now)
	}))
	add(k, "networking.k8s.io", "ingressclasses", alike[*networkingv1.IngressClass, networkingv1beta1.IngressClass](gv, "IngressClass"))
	add(k, "networking.k8s.io", "ipaddresses", alike[*networkingv1.IPAddress, networkingv1beta1.IPAddress](gv, "IPAddress"))
	add(k, "networking.k8s.io", "servicecidrs", alike[*networkingv1.ServiceCIDR, networkingv1beta1.ServiceCIDR](gv, "ServiceCIDR"))
}

// ingressSpec is what Ingresses of both old groups say: they name a service in another way than v1.
type ingressSpec struct {
	networkingv1beta1.IngressSpec
}

// read takes the spec of the group extensions, which has the same fields.
func (s *ingressSpec) read(spec any) { resource.Transcribe(&s.IngressSpec, spec) }

// write sets the backends of an Ingress, the rest of which is there.
func (s *ingressSpec) write(now *networkingv1.Ingress) {
	if s.Backend != nil {
		now.Spec.DefaultBackend = backend(s.Backend)
	}
	for i, rule := range s.Rules {
		if rule.HTTP == nil {
			continue
		}
		for j, path := range rule.HTTP.Paths {
			to := &now.Spec.Rules[i].HTTP.Paths[j]
			to.Backend = *backend(&path.Backend)
			missing(&to.PathType, networkingv1.PathTypeImplementationSpecific)
		}
	}
}

func backend(b *networkingv1beta1.IngressBackend) *networkingv1.IngressBackend {
	out := &networkingv1.IngressBackend{Resource: b.Resource}
	if port := b.ServicePort; b.ServiceName != "" || port != (intstr.IntOrString{}) {
		out.Service = &networkingv1.IngressServiceBackend{
			Name: b.ServiceName, Port: networkingv1.ServiceBackendPort{Name: port.StrVal, Number: port.IntVal},
		}
	}
	return out
}
