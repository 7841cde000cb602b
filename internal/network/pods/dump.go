//go:build linux

package pods

import (
	"errors"

	"github.com/vishvananda/netlink"
)

// dumpAttempts is how often the kernel is asked for a list.
const dumpAttempts = 20

// complete asks the kernel for a list until it has one that did not change while it was written. Where pods come and go
// that may take some attempts.
func complete[T any](list func() ([]T, error)) (all []T, err error) {
	for range dumpAttempts {
		if all, err = list(); !errors.Is(err, netlink.ErrDumpInterrupted) {
			break
		}
	}
	return all, err
}

func addressesOf(link netlink.Link) ([]netlink.Addr, error) {
	return complete(func() ([]netlink.Addr, error) { return netlink.AddrList(link, netlink.FAMILY_ALL) })
}
