package furnish

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// LocalFolder is where the volumes are kept that the cluster's provisioner has placed on this node.
func (f *Furnisher) LocalFolder() string { return LocalFolder(f.Root) }

// LocalFolder is where a kubelet with this root keeps local volumes.
func LocalFolder(root string) string { return filepath.Join(root, "local") }

// localVolume makes sure that a local volume is there. Those below this kubelet's own folder are made when a pod uses them first;
// others must have been prepared by somebody.
func (f *Furnisher) localVolume(path string) (string, error) {
	if filepath.Dir(filepath.Clean(path)) != f.LocalFolder() {
		_, err := os.Stat(path)
		return path, err
	}
	err := os.Mkdir(path, 0o777)
	if errors.Is(err, fs.ErrNotExist) {
		if err = os.MkdirAll(f.LocalFolder(), 0o711); err == nil {
			err = os.Mkdir(path, 0o777)
		}
	}
	if errors.Is(err, fs.ErrExist) {
		return path, nil
	}
	if err != nil {
		return "", err
	}
	return path, os.Chmod(path, 0o777) // whatever the mask of this process is
}

// RemoveLocal removes a volume below the kubelet's own folder, by its name. It is no error if there is none.
func (f *Furnisher) RemoveLocal(name string) error {
	if name == "" || name == "." || name == ".." || strings.ContainsAny(name, `/\`) {
		return fmt.Errorf("%q is not the name of a volume", name)
	}
	return os.RemoveAll(filepath.Join(f.LocalFolder(), name))
}
