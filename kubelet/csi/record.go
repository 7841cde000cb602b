package csi

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/millrace/millrace/internal/durable"
)

// record says, on disk, which volume a directory is of. Its names are those of Kubernetes' vol_data.json.
type record struct {
	Name       string `json:"specVolID"`
	Handle     string `json:"volumeHandle"`
	Driver     string `json:"driverName"`
	Node       string `json:"nodeName"`
	Attachment string `json:"attachmentID,omitempty"`
	Mode       string `json:"volumeLifecycleMode"`
	// Attached says that somebody attached the volume, so that the node tells that it uses it.
	Attached bool `json:"attached,omitempty"`
}

const recordName = "vol_data.json"

// directory is where a volume of a pod is; the driver publishes it at "mount" below that.
func (d *Drivers) directory(uid, name string) string {
	return filepath.Join(d.Root, "pods", uid, "volumes", "kubernetes.io~csi", name)
}

// staging is where a volume is staged, for all pods of the node.
func (d *Drivers) staging(driver, handle string) string {
	return filepath.Join(d.Root, "plugins", "kubernetes.io", "csi", driver, fmt.Sprintf("%x", sha256.Sum256([]byte(handle))), "globalmount")
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

// records are those of one pod, or of all, by directory. A directory without a readable record has been removed halfway, or not been begun.
func (d *Drivers) records(uid string) (map[string]*record, error) {
	directories, err := filepath.Glob(d.directory(uid, "*"))
	if err != nil {
		return nil, err
	}
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

// InUse are the attached volumes that pods of the node have, by the names that a node's status has for them.
func (d *Drivers) InUse() []corev1.UniqueVolumeName {
	all, err := d.records("*")
	if err != nil {
		return nil
	}
	var names []corev1.UniqueVolumeName
	for _, r := range all {
		if r.Attached {
			names = append(names, corev1.UniqueVolumeName("kubernetes.io/csi/"+r.Driver+"^"+r.Handle))
		}
	}
	slices.SortFunc(names, func(a, b corev1.UniqueVolumeName) int { return strings.Compare(string(a), string(b)) })
	return slices.Compact(names)
}
