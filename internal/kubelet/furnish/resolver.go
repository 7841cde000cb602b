package furnish

import (
	"fmt"
	"os"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/millrace/millrace/internal/kubelet/container"
)

// resolver returns a pod's DNS configuration. Nil means the machine's.
func (f *Furnisher) resolver(pod *corev1.Pod) (*container.DNS, error) {
	d := &container.DNS{}
	cluster := pod.Spec.DNSPolicy == corev1.DNSClusterFirst && !pod.Spec.HostNetwork || pod.Spec.DNSPolicy == corev1.DNSClusterFirstWithHostNet
	switch {
	case pod.Spec.DNSPolicy == corev1.DNSNone:
	case cluster && len(f.ClusterDNS) > 0:
		d.Servers = f.ClusterDNS
		d.Searches = []string{pod.Namespace + ".svc." + f.ClusterDomain, "svc." + f.ClusterDomain, f.ClusterDomain}
		d.Options = []string{"ndots:5"}
	case f.Resolver != "":
		if err := f.readResolver(d); err != nil {
			return nil, err
		}
	case pod.Spec.DNSConfig == nil:
		return nil, nil
	}
	if c := pod.Spec.DNSConfig; c != nil {
		d.Servers = append(append([]string(nil), d.Servers...), c.Nameservers...)
		d.Searches = append(d.Searches, c.Searches...)
		for _, o := range c.Options {
			text := o.Name
			if o.Value != nil && *o.Value != "" {
				text += ":" + *o.Value
			}
			d.Options = append(d.Options, text)
		}
	}
	return d, nil
}

// readResolver reads the file of the node's resolver. It may change while the kubelet runs.
func (f *Furnisher) readResolver(d *container.DNS) error {
	text, err := os.ReadFile(f.Resolver)
	if err != nil {
		return fmt.Errorf("read the node's resolver: %w", err)
	}
	for line := range strings.Lines(string(text)) {
		words := strings.Fields(line)
		if len(words) < 2 {
			continue
		}
		switch words[0] {
		case "nameserver":
			d.Servers = append(d.Servers, words[1])
		case "search": // the last one counts
			d.Searches = words[1:]
		case "options":
			d.Options = append(d.Options, words[1:]...)
		}
	}
	return nil
}
