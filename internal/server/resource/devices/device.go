package devices

import (
	"slices"

	v1 "k8s.io/api/resource/v1"
)

// deviceID identifies a device, or a share of one. Errors show the names of its fields.
type deviceID struct{ Driver, Pool, Device, ShareID string }

// allocated returns the devices that are allocated to a claim.
func allocated(s *v1.ResourceClaimStatus) map[deviceID]bool {
	all := map[deviceID]bool{}
	if s.Allocation == nil {
		return all
	}
	for _, r := range s.Allocation.Devices.Results {
		share := ""
		if r.ShareID != nil {
			share = string(*r.ShareID)
		}
		all[deviceID{r.Driver, r.Pool, r.Device, share}] = true
	}
	return all
}

func idOf(s *v1.AllocatedDeviceStatus) deviceID {
	share := ""
	if s.ShareID != nil {
		share = *s.ShareID
	}
	return deviceID{s.Driver, s.Pool, s.Device, share}
}

// dropFreed removes the status of devices that are no longer allocated to the claim.
func dropFreed(c, old *v1.ResourceClaim) {
	now, before := allocated(&c.Status), allocated(&old.Status)
	c.Status.Devices = slices.DeleteFunc(c.Status.Devices, func(s v1.AllocatedDeviceStatus) bool {
		id := idOf(&s)
		return before[id] && !now[id]
	})
	if len(c.Status.Devices) == 0 {
		c.Status.Devices = nil
	}
}
