package apiserver

import (
	"maps"
	"testing"
	"time"

	"github.com/millrace/millrace"
)

func TestFlagsOfTheClusterReachTheServer(t *testing.T) {
	o, err := optionsOf(t, "--service-node-port-range=8000-8009", "--event-ttl=5m", "--runtime-config=apps/v1=false,batch/v1", "--runtime-config=api/all=true", "--default-not-ready-toleration-seconds=0", "--default-unreachable-toleration-seconds=7")
	if err != nil || o.NodePorts != (millrace.PortRange{First: 8000, Last: 8009}) || o.EventTTL != 5*time.Minute || *o.Admission.NotReadySeconds != 0 || *o.Admission.UnreachableSeconds != 7 {
		t.Errorf("%+v, %v", o, err)
	}
	if want := map[string]string{"apps/v1": "false", "batch/v1": "", "api/all": "true"}; !maps.Equal(o.RuntimeConfig, want) {
		t.Errorf("APIs: %v", o.RuntimeConfig)
	}
	o, err = optionsOf(t, "--event-ttl=0")
	if err != nil || o.NodePorts != (millrace.PortRange{First: 30000, Last: 32767}) || o.EventTTL >= 0 || *o.Admission.NotReadySeconds != 300 || *o.Admission.UnreachableSeconds != 300 {
		t.Errorf("the defaults: %+v, %v", o, err)
	}
}
