package up

import (
	"maps"
	"testing"
)

func TestARealNodeReplacesTheHollowOneUnlessBothAreWanted(t *testing.T) {
	f := &upFlags{runtime: "cri:unix:///run/x.sock", listen: "127.0.0.1:0", controllers: "*", nodes: 1, balancer: "none"}
	f.Data, f.ServiceRange = "memory", "10.96.0.0/16"
	for given, nodes := range map[bool]int{false: 0, true: 1} {
		if o, err := f.options(given, nil); err != nil || o.Runtime != "unix:///run/x.sock" || o.Nodes != nodes {
			t.Errorf("%+v, %v", o, err)
		}
	}
}

func TestThresholdsReachTheRealNodeOfUp(t *testing.T) {
	f := &upFlags{runtime: "cri:unix:///run/x.sock", listen: "127.0.0.1:0", controllers: "*", balancer: "none", eviction: []string{"nodefs.available<1Gi"}}
	f.Data, f.ServiceRange = "memory", "10.96.0.0/16"
	if o, err := f.options(false, nil); err != nil || !maps.Equal(o.Eviction, map[string]string{"nodefs.available": "1Gi"}) {
		t.Errorf("%v, %v", o.Eviction, err)
	}
	f.eviction = []string{"nodefs.available=1Gi"}
	if _, err := f.options(false, nil); err == nil {
		t.Error("what is no threshold is taken")
	}
}
