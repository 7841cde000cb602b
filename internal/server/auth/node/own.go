package node

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/millrace/millrace/internal/server/auth"
	"github.com/millrace/millrace/internal/server/registry"
)

// restrictNode lets a node register and describe itself, without steering pods to it or away from it.
func restrictNode(node string, c *registry.Change) error {
	if nameOf(c) != node {
		return fmt.Errorf("node %q is not allowed to modify node %q", node, nameOf(c))
	}
	switch c.Operation {
	case registry.Create:
		n := c.Object.(*corev1.Node)
		if n.Spec.ConfigSource != nil {
			return fmt.Errorf("node %q is not allowed to create pods with a non-nil configSource", node)
		}
		if bad := foreignLabels(n.Labels, nil); len(bad) > 0 {
			return fmt.Errorf("node %q is not allowed to set the following labels: %s", node, strings.Join(bad, ", "))
		}
	case registry.Update:
		return restrictOwnUpdate(node, c.Object.(*corev1.Node), c.Old.(*corev1.Node))
	}
	return nil
}

func restrictOwnUpdate(node string, n, old *corev1.Node) error {
	same := equality.Semantic.DeepEqual
	switch {
	case n.Spec.ConfigSource != nil && !same(n.Spec.ConfigSource, old.Spec.ConfigSource):
		return fmt.Errorf("node %q is not allowed to update configSource to a new non-nil configSource", node)
	case !same(n.Spec.Taints, old.Spec.Taints):
		return fmt.Errorf("node %q is not allowed to modify taints", node)
	case !same(n.OwnerReferences, old.OwnerReferences):
		return fmt.Errorf("node %q is not allowed to modify ownerReferences", node)
	}
	if bad := foreignLabels(n.Labels, old.Labels); len(bad) > 0 {
		return fmt.Errorf("is not allowed to modify labels: %s", strings.Join(bad, ", "))
	}
	return nil
}

// ownLabels are labels of Kubernetes that a kubelet sets on its node.
var ownLabels = []string{
	corev1.LabelHostname, corev1.LabelTopologyZone, corev1.LabelTopologyRegion, corev1.LabelFailureDomainBetaZone, corev1.LabelFailureDomainBetaRegion,
	corev1.LabelInstanceType, corev1.LabelInstanceTypeStable, corev1.LabelOSStable, corev1.LabelArchStable, "beta.kubernetes.io/os", "beta.kubernetes.io/arch",
}

// foreignLabels are the keys of those labels that differ and are not for a node to set, in order.
func foreignLabels(now, before map[string]string) (bad []string) {
	changed := map[string]bool{}
	for _, m := range []map[string]string{now, before} {
		for key := range m {
			a, inNow := now[key]
			b, inBefore := before[key]
			if (a != b || inNow != inBefore) && !ownLabel(key) {
				changed[key] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(changed))
}

func ownLabel(key string) bool {
	domain, _, ok := strings.Cut(key, "/")
	if !ok {
		return true
	}
	in := func(parent string) bool { return domain == parent || strings.HasSuffix(domain, "."+parent) }
	switch {
	case in(corev1.LabelNamespaceNodeRestriction):
		return false
	case !in("kubernetes.io") && !in("k8s.io"):
		return true
	}
	return slices.Contains(ownLabels, key) || in(corev1.LabelNamespaceSuffixKubelet) || in(corev1.LabelNamespaceSuffixNode)
}

// restrictRequest gives a node certificates for itself alone.
func restrictRequest(node string, c *registry.Change) error {
	r, ok := c.Object.(*certificatesv1.CertificateSigningRequest)
	if !ok || c.Operation != registry.Create {
		return nil
	}
	if r.Spec.SignerName != certificatesv1.KubeletServingSignerName && r.Spec.SignerName != certificatesv1.KubeAPIServerClientKubeletSignerName {
		return nil
	}
	block, _ := pem.Decode(r.Spec.Request)
	if block == nil || block.Type != "CERTIFICATE REQUEST" {
		return errors.New("unable to parse csr: PEM block type must be CERTIFICATE REQUEST")
	}
	parsed, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return fmt.Errorf("unable to parse csr: %w", err)
	}
	if parsed.Subject.CommonName != auth.NodePrefix+node {
		return fmt.Errorf("can only create a node CSR with CN=%s%s", auth.NodePrefix, node)
	}
	return nil
}
