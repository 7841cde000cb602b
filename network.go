package millrace

import (
	"fmt"
	"net/netip"
	"path/filepath"
	"strings"

	"github.com/millrace/millrace/internal/kubelet"
	"github.com/millrace/millrace/internal/network"
	"github.com/millrace/millrace/loop"
)

// clusterDomain is the cluster's DNS domain.
const clusterDomain = "cluster.local"

// dnsPlace is the number of the DNS service's address in the service range, as is usual.
const dnsPlace = 10

// network returns this machine's part of the cluster's network, and completes the kubelet's options for it.
func (c *Cluster) network(clients *loop.Clients, o *kubelet.Options) (loop.Runner, error) {
	ranges, err := podRanges(c.options.PodRange)
	if err != nil {
		return nil, err
	}
	dns, err := firstAddress(c.options.ServiceRange)
	if err != nil {
		return nil, err
	}
	for range dnsPlace - 1 {
		dns = dns.Next()
	}
	address, err := netip.ParseAddr(kubelet.OwnAddress())
	if err != nil {
		return nil, err
	}
	o.Addresses, o.ClusterDNS, o.ClusterDomain = []string{address.String()}, []string{dns.String()}, clusterDomain
	n := network.Options{
		Clients: clients, Node: o.Name, Address: address, ClusterCIDRs: ranges, DNS: dns, Domain: clusterDomain,
		ConfigurationDirectory: c.options.CNI.ConfigurationDirectory, PluginDirectory: c.options.CNI.PluginDirectory, Logger: c.options.Logger,
		Metrics: c.metrics.Registry,
	}
	if c.options.Data != "" {
		if n.Directory, err = filepath.Abs(filepath.Join(c.options.Data, "network")); err != nil {
			return nil, err
		}
	}
	return network.New(n)
}

// podRanges parses the address ranges of pods.
func podRanges(text string) ([]netip.Prefix, error) {
	var all []netip.Prefix
	for word := range strings.SplitSeq(text, ",") {
		if word == "" {
			continue
		}
		p, err := netip.ParsePrefix(strings.TrimSpace(word))
		if err != nil {
			return nil, fmt.Errorf("%q is not a range for pods, such as 10.244.0.0/16", word)
		}
		all = append(all, p)
	}
	return all, nil
}
