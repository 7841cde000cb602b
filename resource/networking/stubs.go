package networking

import (
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func checkPolicy(p, old *networkingv1.NetworkPolicy) field.ErrorList            { return nil }
func policyWarnings(p *networkingv1.NetworkPolicy) []string                     { return nil }
func checkIngress(i *networkingv1.Ingress) field.ErrorList                      { return nil }
func checkIngressUpdate(i, old *networkingv1.Ingress) field.ErrorList           { return nil }
func checkIngressStatus(i, old *networkingv1.Ingress) field.ErrorList           { return nil }
func ingressWarnings(i, old *networkingv1.Ingress) []string                     { return nil }
func checkIngressClass(c *networkingv1.IngressClass) field.ErrorList            { return nil }
func checkIngressClassUpdate(c, old *networkingv1.IngressClass) field.ErrorList { return nil }
func checkIPAddress(c *networkingv1.IPAddress) field.ErrorList                  { return nil }
func checkIPAddressUpdate(c, old *networkingv1.IPAddress) field.ErrorList       { return nil }
func ipName(string, bool) []string                                              { return nil }
func checkServiceCIDR(c *networkingv1.ServiceCIDR) field.ErrorList              { return nil }
func checkServiceCIDRUpdate(c, old *networkingv1.ServiceCIDR) field.ErrorList   { return nil }
func checkServiceCIDRStatus(c *networkingv1.ServiceCIDR) field.ErrorList        { return nil }
