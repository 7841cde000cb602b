package allocation

import (
	"context"
	"errors"
	"net/netip"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/millrace/millrace/internal/server/registry"
	"github.com/millrace/millrace/internal/server/resource"
)

// collectTimeout is how long the numbers of taken addresses and ports may take to be read.
const collectTimeout = 2 * time.Second

// How something was allocated: by the choice of a client, or by the server's.
const (
	static  = "static"
	dynamic = "dynamic"
)

// counters count what was allocated.
type counters struct{ addresses, addressErrors, ports, portErrors *prometheus.CounterVec }

func newCounters() counters {
	counter := func(of, name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: "kube_apiserver_" + of + "_allocator_" + name, Help: help}, labels)
	}
	return counters{
		addresses:     counter("clusterip", "allocation_total", "Addresses of services that were allocated.", "cidr", "scope"),
		addressErrors: counter("clusterip", "allocation_errors_total", "Addresses of services that could not be allocated.", "cidr", "scope"),
		ports:         counter("nodeport", "allocation_total", "Node ports that were allocated.", "scope"),
		portErrors:    counter("nodeport", "allocation_errors_total", "Node ports that could not be allocated.", "scope"),
	}
}

// address counts one address of a range.
func (c *counters) address(within netip.Prefix, scope string, err error) {
	of := c.addresses
	if err != nil {
		of = c.addressErrors
	}
	of.WithLabelValues(within.String(), scope).Inc()
}

// portError counts a port that could not be allocated. An error about a field is about a port that the client has chosen.
func (c *counters) portError(err error) {
	scope := dynamic
	if wrong := (*field.Error)(nil); errors.As(err, &wrong) {
		scope = static
	}
	c.portErrors.WithLabelValues(scope).Inc()
}

var (
	allocatedIPs   = prometheus.NewDesc("kube_apiserver_clusterip_allocator_allocated_ips", "Addresses of services that are taken.", []string{"cidr"}, nil)
	availableIPs   = prometheus.NewDesc("kube_apiserver_clusterip_allocator_available_ips", "Addresses of services that are free.", []string{"cidr"}, nil)
	allocatedPorts = prometheus.NewDesc("kube_apiserver_nodeport_allocator_allocated_ports", "Node ports that are taken.", nil, nil)
	availablePorts = prometheus.NewDesc("kube_apiserver_nodeport_allocator_available_ports", "Node ports that are free.", nil, nil)
)

// Describe implements prometheus.Collector.
func (s *Services) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{allocatedIPs, availableIPs, allocatedPorts, availablePorts} {
		out <- d
	}
	for _, c := range s.counted.all() {
		c.Describe(out)
	}
}

func (c *counters) all() []prometheus.Collector {
	return []prometheus.Collector{c.addresses, c.addressErrors, c.ports, c.portErrors}
}

// Collect implements prometheus.Collector. What is taken is read when somebody asks; what cannot be read is left out.
func (s *Services) Collect(out chan<- prometheus.Metric) {
	for _, c := range s.counted.all() {
		c.Collect(out)
	}
	ctx, cancel := context.WithTimeout(context.Background(), collectTimeout)
	defer cancel()
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	for within, taken := range s.takenAddresses(ctx) {
		gauge(allocatedIPs, float64(taken), within.String())
		_, usable := usableOf(within)
		gauge(availableIPs, float64(usable)-float64(taken), within.String())
	}
	if taken, err := s.ports.count(ctx); err == nil {
		gauge(allocatedPorts, float64(taken))
		gauge(availablePorts, float64(s.options.NodePorts.size()-taken))
	}
}

// takenAddresses counts the addresses that are taken in each range.
func (s *Services) takenAddresses(ctx context.Context) map[netip.Prefix]int {
	counts := map[netip.Prefix]int{}
	for _, within := range s.options.Ranges {
		counts[within] = 0
	}
	_ = s.cached(ctx, serviceCIDRs, func(o resource.Object, _ string) {
		if c, ok := o.(*networkingv1.ServiceCIDR); ok {
			for _, text := range c.Spec.CIDRs {
				if within, err := netip.ParsePrefix(text); err == nil {
					counts[within.Masked()] = 0
				}
			}
		}
	})
	_ = s.cached(ctx, ipAddresses, func(_ resource.Object, name string) {
		a, ok := parseAddress(name)
		for within := range counts {
			if ok && within.Contains(a) {
				counts[within]++
			}
		}
	})
	return counts
}

// cached shows the objects of a kind as the watch cache has them. Of addresses, of which there are many, only the names
// are read.
func (s *Services) cached(ctx context.Context, gr schema.GroupResource, see func(o resource.Object, name string)) error {
	storage, err := s.storage(gr)
	if err != nil {
		return err
	}
	list, err := storage.List(ctx, registry.ListQuery{Freshness: registry.Freshness{Any: true}})
	if err != nil {
		return err
	}
	for _, o := range list.Objects {
		if gr == ipAddresses {
			see(nil, o.Name())
		} else if decoded, err := storage.Kind().Decode(ctx, o.Value(), o.Revision.String()); err == nil {
			see(decoded, o.Name())
		}
	}
	return nil
}
