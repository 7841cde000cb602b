package devices

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	health "k8s.io/kubelet/pkg/apis/dra-health/v1"
	healthalpha "k8s.io/kubelet/pkg/apis/dra-health/v1alpha1"
	dra "k8s.io/kubelet/pkg/apis/dra/v1"
)

// nurse tells the health of devices.
type nurse struct {
	health.UnimplementedDRAResourceHealthServer
	tell chan *health.DeviceHealth
}

func (n nurse) NodeWatchResources(_ *health.NodeWatchResourcesRequest, stream grpc.ServerStreamingServer[health.NodeWatchResourcesResponse]) error {
	for {
		select {
		case d := <-n.tell:
			if err := stream.Send(&health.NodeWatchResourcesResponse{Devices: []*health.DeviceHealth{d}}); err != nil {
				return err
			}
		case <-stream.Context().Done():
			return stream.Context().Err()
		}
	}
}

func said(device string, is health.HealthStatus, message string) *health.DeviceHealth {
	return &health.DeviceHealth{Device: &health.DeviceIdentifier{PoolName: "n", DeviceName: device}, Health: is, Message: message}
}

// healthOfMain describes the health of the devices of a pod's container.
func (w *world) healthOfMain(p *corev1.Pod) string {
	var all []string
	for _, s := range w.devices.Health(p, &p.Spec.Containers[0]) {
		for _, r := range s.Resources {
			message := ""
			if r.Message != nil {
				message = *r.Message
			}
			all = append(all, fmt.Sprintf("%s %s %s %s", s.Name, r.ResourceID, r.Health, message))
		}
	}
	return strings.Join(all, "; ")
}

func TestTheHealthOfDevicesIsTold(t *testing.T) {
	for _, version := range []string{health.DRAResourceHealthService, healthalpha.DRAResourceHealthService} {
		t.Run(version, func(t *testing.T) {
			w := start(t, dra.DRAPluginService, version)
			p := pod("p", "x")
			w.claim("x", p)
			w.prepare(p)
			const id = "claim:my-x " + driverName + "/gpu=x"
			if got, want := w.healthOfMain(p), id+" Unknown ; "+id+"-b Unknown "; got != want {
				t.Errorf("the health is %q, want %q", got, want)
			}
			w.health.tell <- said("d", health.HealthStatus_UNHEALTHY, "too hot")
			if got := <-w.affected; !slices.Equal(got, []types.UID{p.UID}) {
				t.Errorf("%v are affected", got)
			}
			if got, want := w.healthOfMain(p), id+" Unhealthy too hot; "+id+"-b Unknown "; got != want {
				t.Errorf("the health is %q, want %q", got, want)
			}
			p.Spec.Containers[0].Resources.Claims[0].Request = "a"
			w.health.tell <- said("d", health.HealthStatus_HEALTHY, "")
			<-w.affected
			if got, want := w.healthOfMain(p), "claim:my-x/a "+driverName+"/gpu=x Healthy "; got != want {
				t.Errorf("the health is %q, want %q", got, want)
			}
			w.stop()
			<-w.affected
			if got, want := w.healthOfMain(p), "claim:my-x/a "+driverName+"/gpu=x Unknown "; got != want {
				t.Errorf("when the driver has gone the health is %q, want %q", got, want)
			}
		})
	}
}

func TestAWordAboutADeviceGrowsOld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var h healths
		a, b := name{"n", "a"}, name{"n", "b"}
		long := said("b", health.HealthStatus_HEALTHY, strings.Repeat("x", 2000))
		long.HealthCheckTimeoutSeconds = 60
		now := time.Now()
		words := map[name]word{a: wordOf(said("a", health.HealthStatus_HEALTHY, ""), now), b: wordOf(long, now)}
		if got := h.set("d", words, now); len(got) != 2 {
			t.Errorf("%v have changed", got)
		}
		if got := h.set("d", words, now); len(got) != 0 {
			t.Errorf("%v have changed", got)
		}
		if m := h.of("d", b).message; len(m) != 1024 || !strings.HasSuffix(m, "x...") {
			t.Errorf("the message has %d bytes", len(m))
		}
		time.Sleep(31 * time.Second)
		if h.of("d", a).health != corev1.ResourceHealthStatusUnknown || h.of("d", b).health != corev1.ResourceHealthStatusHealthy {
			t.Error("after half a minute the one should be unknown, and the other be healthy for a minute")
		}
		delete(words, a)
		if got := h.set("d", words, time.Now()); !slices.Equal(got, []name{a}) {
			t.Errorf("%v have changed", got)
		}
	})
}
