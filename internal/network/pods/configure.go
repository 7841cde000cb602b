//go:build linux

package pods

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
)

// configurationFile is the agent's file. Runtimes use the first file by name.
const configurationFile = "10-millrace.conflist"

// otherConfiguration returns the name of a CNI configuration that is not the agent's, if there is one.
func (a *Agent) otherConfiguration() (string, error) {
	entries, err := os.ReadDir(a.options.ConfigurationDirectory)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	for _, e := range entries {
		if e.Name() != configurationFile && slices.Contains([]string{".conf", ".conflist", ".json"}, filepath.Ext(e.Name())) {
			return filepath.Join(a.options.ConfigurationDirectory, e.Name()), nil
		}
	}
	return "", nil
}

// install makes links to this program where the runtime finds plugins. An existing loopback plugin that is not ours is
// not replaced.
func (a *Agent) install() error {
	if err := os.MkdirAll(a.options.PluginDirectory, 0o755); err != nil {
		return err
	}
	if err := a.link(filepath.Join(a.options.PluginDirectory, PluginName)); err != nil {
		return err
	}
	lo := filepath.Join(a.options.PluginDirectory, LoopbackName)
	if _, err := os.Stat(lo); err == nil {
		return nil
	}
	return a.link(lo)
}

// link makes or replaces a link to this program atomically.
func (a *Agent) link(at string) error {
	if to, err := os.Readlink(at); err == nil && to == a.options.Program {
		return nil
	}
	fresh := at + ".new"
	if err := os.Remove(fresh); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.Symlink(a.options.Program, fresh); err != nil {
		return err
	}
	return os.Rename(fresh, at)
}

// configure writes the plugin's configuration, unless it is unchanged.
func (a *Agent) configure(self peer, mtu int) error {
	plugin := map[string]any{
		"type": PluginName, "folder": a.options.Directory, "mtu": mtu, "capabilities": map[string]bool{"portMappings": true},
	}
	var ranges []netip.Prefix
	for _, r := range self.ranges {
		if r.IsValid() {
			ranges = append(ranges, r)
		}
	}
	plugin["ranges"] = ranges
	if a.options.Hold {
		plugin["hold"] = true
	}
	text, err := json.MarshalIndent(map[string]any{"cniVersion": "1.0.0", "name": "millrace", "plugins": []any{plugin}}, "", "  ")
	if err != nil {
		return err
	}
	at := filepath.Join(a.options.ConfigurationDirectory, configurationFile)
	if have, err := os.ReadFile(at); err == nil && bytes.Equal(have, text) {
		return nil
	}
	if err := os.MkdirAll(a.options.ConfigurationDirectory, 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(at+".new", text, 0o644); err != nil {
		return err
	}
	return os.Rename(at+".new", at)
}

// forwarding makes the kernel forward packets between links.
func forwarding() error {
	for _, name := range []string{"ipv4/ip_forward", "ipv6/conf/all/forwarding"} {
		path := "/proc/sys/net/" + name
		have, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue // the kernel has no IPv6
		}
		if err == nil && string(bytes.TrimSpace(have)) == "1" {
			continue
		}
		if err := os.WriteFile(path, []byte("1"), 0); err != nil {
			return fmt.Errorf("let the kernel forward packets: %w", err)
		}
	}
	return nil
}
