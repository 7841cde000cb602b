package apiserver

import (
	"fmt"
	"time"

	"github.com/spf13/pflag"
	utilnet "k8s.io/apimachinery/pkg/util/net"

	"github.com/millrace/millrace"
)

// clusterFlags configure which APIs are served and what objects get, under kube-apiserver's names.
type clusterFlags struct {
	apis                  runtimeConfig
	nodePorts             utilnet.PortRange
	eventTTL              time.Duration
	notReady, unreachable int64
}

func (f *clusterFlags) add(fl *pflag.FlagSet) {
	f.nodePorts = utilnet.PortRange{Base: 30000, Size: 2768}
	fl.Var(&f.apis, "runtime-config", "APIs that are turned off or on: group/version=false, group/version/resource=false, api/all=false with others, api/ga, api/beta, api/alpha")
	fl.Var(&f.nodePorts, "service-node-port-range", "range of the node ports of services, with both ends")
	fl.DurationVar(&f.eventTTL, "event-ttl", time.Hour, "how long events are kept; 0 keeps them for ever")
	fl.Int64Var(&f.notReady, "default-not-ready-toleration-seconds", 300, "how many seconds a pod stays on a node that is not ready, unless the pod says something else")
	fl.Int64Var(&f.unreachable, "default-unreachable-toleration-seconds", 300, "how many seconds a pod stays on a node that cannot be reached, unless the pod says something else")
}

func (f *clusterFlags) check() error {
	switch {
	case f.eventTTL < 0:
		return fmt.Errorf("--event-ttl %v is less than 0", f.eventTTL)
	case f.nodePorts.Contains(0):
		return fmt.Errorf("--service-node-port-range %v has port 0", &f.nodePorts)
	}
	return nil
}

// apply sets the options. An event TTL of 0 keeps events for ever, and an empty range of node ports means the default.
func (f *clusterFlags) apply(o *millrace.Options) {
	o.RuntimeConfig = f.apis
	if f.nodePorts.Size > 0 {
		o.NodePorts = millrace.PortRange{First: int32(f.nodePorts.Base), Last: int32(f.nodePorts.Base + f.nodePorts.Size - 1)}
	}
	if o.EventTTL = f.eventTTL; o.EventTTL == 0 {
		o.EventTTL = -1
	}
	o.Admission.NotReadySeconds, o.Admission.UnreachableSeconds = &f.notReady, &f.unreachable
}
