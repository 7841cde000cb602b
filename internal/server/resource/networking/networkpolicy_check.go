package networking

import (
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	netutils "k8s.io/utils/net"

	"github.com/millrace/millrace/internal/server/resource/check"
)

// policyCheck knows which invalid values a policy already had, because these may stay.
type policyCheck struct {
	selectors metav1validation.LabelSelectorValidationOptions
	known     []string
}

func checkPolicy(p, old *networkingv1.NetworkPolicy) field.ErrorList {
	var c policyCheck
	if old != nil {
		eachPeer(&old.Spec, func(peer *networkingv1.NetworkPolicyPeer) {
			if b := peer.IPBlock; b != nil {
				c.known = append(append(c.known, b.CIDR), b.Except...)
			}
			for _, s := range []*metav1.LabelSelector{peer.PodSelector, peer.NamespaceSelector} {
				c.tolerate(s)
			}
		})
		c.tolerate(&old.Spec.PodSelector)
	}
	return c.spec(&p.Spec, field.NewPath("spec"))
}

func (c *policyCheck) tolerate(s *metav1.LabelSelector) {
	if s != nil && metav1validation.LabelSelectorHasInvalidLabelValue(s) {
		c.selectors.AllowInvalidLabelValueInSelector = true
	}
}

func eachPeer(s *networkingv1.NetworkPolicySpec, do func(*networkingv1.NetworkPolicyPeer)) {
	for i := range s.Ingress {
		for j := range s.Ingress[i].From {
			do(&s.Ingress[i].From[j])
		}
	}
	for i := range s.Egress {
		for j := range s.Egress[i].To {
			do(&s.Egress[i].To[j])
		}
	}
}

func (c *policyCheck) spec(s *networkingv1.NetworkPolicySpec, path *field.Path) field.ErrorList {
	errs := metav1validation.ValidateLabelSelector(&s.PodSelector, c.selectors, path.Child("podSelector"))
	for i, rule := range s.Ingress {
		at := path.Child("ingress").Index(i)
		errs = append(errs, checkPolicyPorts(rule.Ports, at.Child("ports"))...)
		errs = append(errs, c.peers(rule.From, at.Child("from"))...)
	}
	for i, rule := range s.Egress {
		at := path.Child("egress").Index(i)
		errs = append(errs, checkPolicyPorts(rule.Ports, at.Child("ports"))...)
		errs = append(errs, c.peers(rule.To, at.Child("to"))...)
	}
	at := path.Child("policyTypes")
	if len(s.PolicyTypes) > 2 {
		return append(errs, field.Invalid(at, &s.PolicyTypes, "may not specify more than two policyTypes"))
	}
	for i, t := range s.PolicyTypes {
		errs = append(errs, check.OneOf(t, at.Index(i), networkingv1.PolicyTypeIngress, networkingv1.PolicyTypeEgress)...)
	}
	return errs
}

func checkPolicyPorts(ports []networkingv1.NetworkPolicyPort, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i := range ports {
		errs = append(errs, checkPolicyPort(&ports[i], path.Index(i))...)
	}
	return errs
}

func checkPolicyPort(p *networkingv1.NetworkPolicyPort, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if p.Protocol != nil {
		errs = append(errs, check.OneOf(*p.Protocol, path.Child("protocol"), corev1.ProtocolTCP, corev1.ProtocolUDP, corev1.ProtocolSCTP)...)
	}
	end := path.Child("endPort")
	switch {
	case p.Port == nil:
		if p.EndPort != nil {
			errs = append(errs, field.Invalid(end, *p.EndPort, "may not be specified when `port` is not specified"))
		}
	case p.Port.Type == intstr.Int:
		errs = append(errs, check.Port(p.Port.IntVal, path.Child("port"))...)
		if p.EndPort != nil {
			if *p.EndPort < p.Port.IntVal {
				errs = append(errs, field.Invalid(end, p.Port.IntVal, "must be greater than or equal to `port`"))
			}
			errs = append(errs, check.Port(*p.EndPort, end)...)
		}
	default:
		if p.EndPort != nil {
			errs = append(errs, field.Invalid(end, *p.EndPort, "may not be specified when `port` is non-numeric"))
		}
		errs = append(errs, check.PortOrName(*p.Port, path.Child("port"))...)
	}
	return errs
}

func (c *policyCheck) peers(peers []networkingv1.NetworkPolicyPeer, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i := range peers {
		p, at := &peers[i], path.Index(i)
		number := 0
		if p.PodSelector != nil {
			number++
			errs = append(errs, metav1validation.ValidateLabelSelector(p.PodSelector, c.selectors, at.Child("podSelector"))...)
		}
		if p.NamespaceSelector != nil {
			number++
			errs = append(errs, metav1validation.ValidateLabelSelector(p.NamespaceSelector, c.selectors, at.Child("namespaceSelector"))...)
		}
		if p.IPBlock != nil {
			number++
			errs = append(errs, c.block(p.IPBlock, at.Child("ipBlock"))...)
		}
		switch {
		case number == 0:
			errs = append(errs, field.Required(at, "must specify a peer"))
		case number > 1 && p.IPBlock != nil:
			errs = append(errs, field.Forbidden(at, "may not specify both ipBlock and another peer"))
		}
	}
	return errs
}

func (c *policyCheck) block(b *networkingv1.IPBlock, path *field.Path) field.ErrorList {
	if b.CIDR == "" {
		return field.ErrorList{field.Required(path.Child("cidr"), "")}
	}
	errs := check.CIDR(b.CIDR, path.Child("cidr"), c.known)
	_, whole, err := netutils.ParseCIDRSloppy(b.CIDR)
	if err != nil {
		return errs
	}
	size, _ := whole.Mask.Size()
	for i, text := range b.Except {
		at := path.Child("except").Index(i)
		errs = append(errs, check.CIDR(text, at, c.known)...)
		_, part, err := netutils.ParseCIDRSloppy(text)
		if err != nil {
			continue
		}
		if n, _ := part.Mask.Size(); !whole.Contains(part.IP) || n <= size {
			errs = append(errs, field.Invalid(at, part.String(), "must be a strict subset of `cidr`"))
		}
	}
	return errs
}

func policyWarnings(p *networkingv1.NetworkPolicy) []string {
	var out []string
	of := func(peers []networkingv1.NetworkPolicyPeer, path *field.Path) {
		for i := range peers {
			b := peers[i].IPBlock
			if b == nil {
				continue
			}
			at := path.Index(i).Child("ipBlock")
			out = append(out, validation.GetWarningsForCIDR(at.Child("cidr"), b.CIDR)...)
			for j, e := range b.Except {
				out = append(out, validation.GetWarningsForCIDR(at.Child("except").Index(j), e)...)
			}
		}
	}
	for i := range p.Spec.Ingress {
		of(p.Spec.Ingress[i].From, field.NewPath("spec", "ingress").Index(i).Child("from"))
	}
	for i := range p.Spec.Egress {
		of(p.Spec.Egress[i].To, field.NewPath("spec", "egress").Index(i).Child("to"))
	}
	return out
}
