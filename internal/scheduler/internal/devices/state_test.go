package devices_test

import (
	"testing"

	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace/millrace/internal/scheduler/internal/devices"
)

var key = devices.Key{Namespace: "default", Name: "claim"}

// claim returns a version of a claim; allocated means that it has a device.
func claim(version string, allocated bool) *resourcev1.ResourceClaim {
	c := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name, UID: "uid", ResourceVersion: version}}
	if allocated {
		c.Status.Allocation = &resourcev1.AllocationResult{Devices: resourcev1.DeviceAllocationResult{
			Results: []resourcev1.DeviceRequestAllocationResult{{Request: "gpu", Driver: "gpu.example.com", Pool: "node", Device: "gpu-0"}},
		}}
	}
	return c
}

// TestADeviceStaysTakenWhileItsClaimIsWritten: first a finalizer is written, then the allocation. In between the API
// shows a newer claim without devices.
func TestADeviceStaysTakenWhileItsClaimIsWritten(t *testing.T) {
	for name, test := range map[string]struct {
		do   func(*devices.State)
		want int
	}{
		"assumed":                      {func(*devices.State) {}, 1},
		"the finalizer is shown":       {func(p *devices.State) { p.SetClaim(key, claim("2", false)) }, 1},
		"written, not shown":           {func(p *devices.State) { p.SetClaim(key, claim("2", false)); p.Written(claim("3", true)) }, 1},
		"shown before it is written":   {func(p *devices.State) { p.SetClaim(key, claim("3", true)); p.Written(claim("3", true)) }, 1},
		"written, an older one shown":  {func(p *devices.State) { p.Written(claim("3", true)); p.SetClaim(key, claim("2", false)) }, 1},
		"written and given back":       {func(p *devices.State) { p.Written(claim("3", true)); p.SetClaim(key, claim("4", false)) }, 0},
		"given back before the answer": {func(p *devices.State) { p.SetClaim(key, claim("4", false)); p.Written(claim("3", true)) }, 0},
		"the write failed":             {func(p *devices.State) { p.SetClaim(key, claim("2", false)); p.Restore(key) }, 0},
		"the claim has gone":           {func(p *devices.State) { p.SetClaim(key, nil); p.Written(claim("3", true)) }, 0},
	} {
		p := &devices.State{}
		p.SetClaim(key, claim("1", false))
		p.Assume(claim("1", true))
		test.do(p)
		if got := p.Taken().AllocatedDevices.Len(); got != test.want {
			t.Errorf("%s: %d devices are taken, want %d", name, got, test.want)
		}
	}
}
