package csi

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/millrace/millrace/internal/durable"
	"github.com/millrace/millrace/loop"
)

// record says, on disk, which volume a directory is of. Its names are those of Kubernetes' vol_data.json.
type record struct {
	Name       string `json:"specVolID"`
	Handle     string `json:"volumeHandle"`
	Driver     string `json:"driverName"`
	Node       string `json:"nodeName"`
	Attachment string `json:"attachmentID,omitempty"`
	Mode       string `json:"volumeLifecycleMode"`
	// Claim is the name of the claim in the pod's namespace, unless the volume is the pod's own.
	Claim string `json:"claim,omitempty"`
	// Block says that the volume is raw blocks and not a file system.
	Block bool `json:"block,omitempty"`
	// Attached says that somebody attached the volume, so that the node tells that it uses it.
	Attached bool `json:"attached,omitempty"`
}

// volume is the volume's name among those of all drivers.
func (r *record) volume() string { return r.Driver + "/" + r.Handle }

// key is the volume, whichever pod has it.
func (r *record) key() loop.Key { return loop.Key{Namespace: r.Driver, Name: r.Handle} }

func (r *record) inline() bool { return r.Mode == string(storagev1.VolumeLifecycleEphemeral) }

const recordName = "vol_data.json"

// directory is where the record of a pod's volume is, and the volume itself if it is a file system.
func (d *Drivers) directory(uid, name string, block bool) string {
	kind := "volumes"
	if block {
		kind = "volumeDevices"
	}
	return filepath.Join(d.Root, "pods", uid, kind, "kubernetes.io~csi", name)
}

// podOf returns the pod of a directory.
func podOf(directory string) (uid string) {
	return filepath.Base(filepath.Dir(filepath.Dir(filepath.Dir(directory))))
}

// target is where a driver publishes the volume that has its record in a directory.
func (d *Drivers) target(directory string, r *record) string {
	if r.Block {
		return filepath.Join(d.devices(), "publish", r.Name, podOf(directory))
	}
	return filepath.Join(directory, "mount")
}

// staging is where a volume is staged, for all pods of the node, and the directory of its record there.
func (d *Drivers) staging(r *record) (path, directory string) {
	if r.Block {
		return filepath.Join(d.devices(), "staging", r.Name), filepath.Join(d.devices(), r.Name, "data")
	}
	directory = filepath.Join(d.Root, "plugins", "kubernetes.io", "csi", r.Driver, fmt.Sprintf("%x", sha256.Sum256([]byte(r.Handle))))
	return filepath.Join(directory, "globalmount"), directory
}

// devices is the directory of all volumes of raw blocks.
func (d *Drivers) devices() string {
	return filepath.Join(d.Root, "plugins", "kubernetes.io", "csi", "volumeDevices")
}

func save(directory string, r *record) error {
	if err := os.MkdirAll(directory, 0o750); err != nil {
		return err
	}
	encoded, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return durable.WriteFile(filepath.Join(directory, recordName), encoded, 0o600)
}

func load(directory string) (*record, error) {
	encoded, err := os.ReadFile(filepath.Join(directory, recordName))
	if err != nil {
		return nil, err
	}
	r := &record{}
	if err := json.Unmarshal(encoded, r); err != nil {
		return nil, fmt.Errorf("read %s: %w", directory, err)
	}
	return r, nil
}

// records are those of one pod, or of all, by directory. A directory without a readable record has been removed
// halfway, or not been begun.
func (d *Drivers) records(uid string) (map[string]*record, error) {
	directories, err := filepath.Glob(d.directory(uid, "*", false))
	blocks, blockErr := filepath.Glob(d.directory(uid, "*", true))
	if err := errors.Join(err, blockErr); err != nil {
		return nil, err
	}
	return loadAll(append(directories, blocks...))
}

// staged are the records of the volumes that are staged, or have been begun to be.
func (d *Drivers) staged() ([]*record, error) {
	directories, err := filepath.Glob(filepath.Join(d.Root, "plugins", "kubernetes.io", "csi", "*", "*"))
	blocks, blockErr := filepath.Glob(filepath.Join(d.devices(), "*", "data"))
	if err := errors.Join(err, blockErr); err != nil {
		return nil, err
	}
	all, err := loadAll(append(directories, blocks...))
	return slices.Collect(maps.Values(all)), err
}

func loadAll(directories []string) (map[string]*record, error) {
	all := map[string]*record{}
	for _, directory := range directories {
		r, err := load(directory)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		all[directory] = r
	}
	return all, nil
}

// InUse are the attached volumes that pods of the node have or that are staged, by the names that a node's status has
// for them.
func (d *Drivers) InUse() []corev1.UniqueVolumeName {
	published, err := d.records("*")
	staged, stagedErr := d.staged()
	if err != nil || stagedErr != nil {
		return nil
	}
	var names []corev1.UniqueVolumeName
	for _, r := range slices.AppendSeq(staged, maps.Values(published)) {
		if r.Attached {
			names = append(names, corev1.UniqueVolumeName("kubernetes.io/csi/"+r.Driver+"^"+r.Handle))
		}
	}
	slices.SortFunc(names, func(a, b corev1.UniqueVolumeName) int { return strings.Compare(string(a), string(b)) })
	return slices.Compact(names)
}
