package devices

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"k8s.io/apimachinery/pkg/types"
)

// claim is what was done for a resource claim. A claim in the map of [Devices] is never changed, but exchanged for
// another.
type claim struct {
	UID       types.UID   `json:"claimUID"`
	Namespace string      `json:"namespace"`
	Name      string      `json:"claimName"`
	Pods      []types.UID `json:"podUIDs"`
	// Drivers are those of the claim's devices. One that has not answered yet that it is prepared has no state.
	Drivers map[string]*state `json:"driverState"`
}

// state is what a driver has prepared.
type state struct {
	Devices []device `json:"devices"`
}

// device is one device that a driver has prepared.
type device struct {
	Pool     string   `json:"poolName"`
	Name     string   `json:"deviceName"`
	Requests []string `json:"requestNames,omitempty"`
	CDI      []string `json:"cdiDeviceIDs,omitempty"`
	Share    *string  `json:"shareID,omitempty"`
}

// prepared tells whether all drivers have prepared the claim.
func (c *claim) prepared() bool {
	for _, s := range c.Drivers {
		if s == nil {
			return false
		}
	}
	return true
}

func (c *claim) clone() *claim {
	cloned := *c
	cloned.Pods, cloned.Drivers = slices.Clone(c.Pods), maps.Clone(c.Drivers)
	return &cloned
}

// contents is the file.
type contents struct {
	Claims []*claim `json:"claims"`
}

func (d *Devices) file() string { return filepath.Join(d.Root, "dra_state") }

func load(file string) (map[types.UID]*claim, error) {
	all := map[types.UID]*claim{}
	encoded, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return all, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read which resource claims are prepared: %w", err)
	}
	var c contents
	if err := json.Unmarshal(encoded, &c); err != nil {
		return nil, fmt.Errorf("read which resource claims are prepared: %s: %w", file, err)
	}
	for _, one := range c.Claims {
		all[one.UID] = one
	}
	return all, nil
}

// note exchanges what is known of a claim, nil for nothing, and writes it to disk.
func (d *Devices) note(uid types.UID, c *claim) error {
	d.noted.Lock()
	defer d.noted.Unlock()
	next := maps.Clone(d.claims)
	if c == nil {
		delete(next, uid)
	} else {
		next[uid] = c
	}
	if err := save(d.file(), next); err != nil {
		return fmt.Errorf("write which resource claims are prepared: %w", err)
	}
	d.claims = next
	return nil
}

func save(file string, claims map[types.UID]*claim) error {
	c := contents{Claims: []*claim{}}
	for _, uid := range slices.Sorted(maps.Keys(claims)) {
		c.Claims = append(c.Claims, claims[uid])
	}
	encoded, err := json.Marshal(c)
	if err != nil {
		return err
	}
	temporary, err := os.CreateTemp(filepath.Dir(file), ".dra_state-*")
	if err != nil {
		return err
	}
	defer os.Remove(temporary.Name())
	_, err = temporary.Write(encoded)
	if err = errors.Join(err, temporary.Sync(), temporary.Close()); err != nil {
		return err
	}
	return os.Rename(temporary.Name(), file)
}

// known is what is known of a claim.
func (d *Devices) known(uid types.UID) *claim {
	d.noted.Lock()
	defer d.noted.Unlock()
	return d.claims[uid]
}

// named finds a claim by its name.
func (d *Devices) named(namespace, name string) *claim {
	d.noted.Lock()
	defer d.noted.Unlock()
	for _, c := range d.claims {
		if c.Namespace == namespace && c.Name == name {
			return c
		}
	}
	return nil
}

// usedBy are the claims of a pod, in the order of their uids.
func (d *Devices) usedBy(pod types.UID) []types.UID {
	d.noted.Lock()
	defer d.noted.Unlock()
	var all []types.UID
	for uid, c := range d.claims {
		if slices.Contains(c.Pods, pod) {
			all = append(all, uid)
		}
	}
	slices.Sort(all)
	return all
}
