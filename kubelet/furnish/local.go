package furnish

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// LocalDirectory returns the directory of the local volumes that the cluster's provisioner has placed on this node.
func (f *Furnisher) LocalDirectory() string { return LocalDirectory(f.Root) }

// LocalDirectory returns the directory of local volumes for a kubelet with this root.
func LocalDirectory(root string) string { return filepath.Join(root, "local") }

// localVolume makes sure that a local volume exists. A volume below this kubelet's own directory is made when a pod uses it
// first; any other must exist.
func (f *Furnisher) localVolume(path string) (string, error) {
	if filepath.Dir(filepath.Clean(path)) != f.LocalDirectory() {
		_, err := os.Stat(path)
		return path, err
	}
	err := os.Mkdir(path, 0o777)
	if errors.Is(err, fs.ErrNotExist) {
		if err = os.MkdirAll(f.LocalDirectory(), 0o711); err == nil {
			err = os.Mkdir(path, 0o777)
		}
	}
	if errors.Is(err, fs.ErrExist) {
		return path, nil
	}
	if err != nil {
		return "", err
	}
	return path, os.Chmod(path, 0o777) // whatever the umask is
}

// RemoveLocal removes a volume below the kubelet's own directory by its name. A volume that does not exist is no error.
func (f *Furnisher) RemoveLocal(name string) error {
	if name == "" || name == "." || name == ".." || strings.ContainsAny(name, `/\`) {
		return fmt.Errorf("%q is not the name of a volume", name)
	}
	return os.RemoveAll(filepath.Join(f.LocalDirectory(), name))
}
