package devices

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
	health "k8s.io/kubelet/pkg/apis/dra-health/v1"
	healthalpha "k8s.io/kubelet/pkg/apis/dra-health/v1alpha1"
)

const (
	// healthFor is how long a driver's word about a device holds if it does not say otherwise.
	healthFor = 30 * time.Second
	// healthAgain is the pause before a driver is asked again.
	healthAgain = 5 * time.Second
	// longestMessage is how long a message about a device is at the most.
	longestMessage = 1024
)

// name is a device among those of a driver.
type name struct{ pool, device string }

// word is what a driver says of a device.
type word struct {
	health  corev1.ResourceHealthStatus
	message string
	until   time.Time
}

// healths are the words of all drivers.
type healths struct {
	mu  sync.Mutex
	all map[string]map[name]word // guarded by mu; by driver
}

// set replaces the words of a driver, and returns the devices whose health is another. A device that a driver leaves
// out keeps its health until that is too old.
func (h *healths) set(driver string, words map[name]word, now time.Time) (changed []name) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.all == nil {
		h.all = map[string]map[name]word{}
	}
	before := h.all[driver]
	next := maps.Clone(words)
	for n, w := range before {
		if _, ok := words[n]; ok {
			continue
		}
		if now.Before(w.until) {
			next[n] = w
		} else {
			changed = append(changed, n)
		}
	}
	for n, w := range words {
		if was, ok := before[n]; !ok || was.health != w.health || was.message != w.message {
			changed = append(changed, n)
		}
	}
	h.all[driver] = next
	return changed
}

// forget forgets the words of a driver, and returns its devices.
func (h *healths) forget(driver string) []name {
	h.mu.Lock()
	defer h.mu.Unlock()
	all := slices.Collect(maps.Keys(h.all[driver]))
	delete(h.all, driver)
	return all
}

func (h *healths) of(driver string, n name) word {
	h.mu.Lock()
	defer h.mu.Unlock()
	if w, ok := h.all[driver][n]; ok && time.Now().Before(w.until) {
		return w
	}
	return word{health: corev1.ResourceHealthStatusUnknown}
}

// healthClient returns what asks a driver for the health of its devices, or nil if the driver does not tell.
func healthClient(versions []string, c *grpc.ClientConn) health.DRAResourceHealthClient {
	switch {
	case slices.Contains(versions, health.DRAResourceHealthService):
		return health.NewDRAResourceHealthClient(c)
	case slices.Contains(versions, healthalpha.DRAResourceHealthService):
		return health.V1Alpha1ClientWrapper{Client: healthalpha.NewDRAResourceHealthClient(c)}
	}
	return nil
}

// followHealth takes what a driver says of its devices until the driver goes.
func (d *Devices) followHealth(x *driver, c health.DRAResourceHealthClient) {
	for {
		err := d.readHealth(x, c)
		if x.life.Err() != nil {
			return
		}
		d.Logger.Warn("a driver no longer tells the health of its devices; will ask again", "driver", x.name, "err", err)
		d.affected(x.name, d.health.forget(x.name))
		select {
		case <-time.After(healthAgain):
		case <-x.life.Done():
			return
		}
	}
}

func (d *Devices) readHealth(x *driver, c health.DRAResourceHealthClient) error {
	ctx, cancel := context.WithCancel(x.life)
	defer cancel()
	stream, err := c.NodeWatchResources(ctx, &health.NodeWatchResourcesRequest{})
	if err != nil {
		return err
	}
	for {
		list, err := stream.Recv()
		if err != nil {
			return err
		}
		now, words := time.Now(), map[name]word{}
		for _, x := range list.GetDevices() {
			words[name{x.GetDevice().GetPoolName(), x.GetDevice().GetDeviceName()}] = wordOf(x, now)
		}
		d.affected(x.name, d.health.set(x.name, words, now))
	}
}

func wordOf(x *health.DeviceHealth, now time.Time) word {
	w := word{health: corev1.ResourceHealthStatusUnknown, message: x.GetMessage()}
	switch x.GetHealth() {
	case health.HealthStatus_HEALTHY:
		w.health = corev1.ResourceHealthStatusHealthy
	case health.HealthStatus_UNHEALTHY:
		w.health = corev1.ResourceHealthStatusUnhealthy
	}
	if len(w.message) > longestMessage {
		w.message = w.message[:longestMessage-3] + "..."
	}
	w.until = now.Add(cmp.Or(max(time.Duration(x.GetHealthCheckTimeoutSeconds()), 0)*time.Second, healthFor))
	return w
}

// affected tells which pods have some devices of a driver.
func (d *Devices) affected(driver string, changed []name) {
	if len(changed) == 0 {
		return
	}
	d.noted.Lock()
	var pods []types.UID
	for _, c := range d.claims {
		if s := c.Drivers[driver]; s != nil && slices.ContainsFunc(s.Devices, func(x device) bool { return slices.Contains(changed, name{x.Pool, x.Name}) }) {
			pods = append(pods, c.Pods...)
		}
	}
	d.noted.Unlock()
	if len(pods) > 0 {
		d.Affected(pods)
	}
}

// Health returns the health of the devices that a container has by its claims, as the container's status has it.
func (d *Devices) Health(pod *corev1.Pod, c *corev1.Container) []corev1.ResourceStatus {
	var all []corev1.ResourceStatus
	for _, asked := range c.Resources.Claims {
		s := corev1.ResourceStatus{Name: corev1.ResourceName("claim:" + asked.Name)}
		if asked.Request != "" {
			s.Name += corev1.ResourceName("/" + asked.Request)
		}
		for i := range pod.Spec.ResourceClaims {
			if pod.Spec.ResourceClaims[i].Name != asked.Name {
				continue
			}
			if claim, _, err := resourceclaim.Name(pod, &pod.Spec.ResourceClaims[i]); err == nil && claim != nil {
				s.Resources = d.healthOf(pod.Namespace, *claim, resourceclaim.BaseRequestRef(asked.Request))
			}
		}
		if len(s.Resources) > 0 {
			all = append(all, s)
		}
	}
	return all
}

// healthOf returns the health of the devices of a claim, or of one of its requests.
func (d *Devices) healthOf(namespace, claim, request string) []corev1.ResourceHealth {
	var all []corev1.ResourceHealth
	for _, x := range d.devicesFor(namespace, claim, request) {
		h := corev1.ResourceHealth{ResourceID: corev1.ResourceID(x.driver + "/" + x.Pool + "/" + x.Name)}
		if len(x.CDI) > 0 {
			h.ResourceID = corev1.ResourceID(x.CDI[0])
		}
		w := d.health.of(x.driver, name{x.Pool, x.Name})
		if h.Health = w.health; w.message != "" {
			h.Message = &w.message
		}
		if !slices.ContainsFunc(all, func(other corev1.ResourceHealth) bool { return other.ResourceID == h.ResourceID }) {
			all = append(all, h)
		}
	}
	return all
}
