package storage

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/millrace/millrace/internal/server/resource"
)

// apiSwitches are the APIs that a runtime configuration turns off and on. A switch of a resource has precedence over
// one of its version, that over one of a level of stability, and that over the one of all.
type apiSwitches struct {
	levels    map[string]bool // all, ga, beta, alpha
	versions  map[schema.GroupVersion]bool
	resources map[schema.GroupVersionResource]bool
}

// switchAPIs turns faces of kinds off and on as a runtime configuration says.
func switchAPIs(kinds []*resource.Kind, config map[string]string, log *slog.Logger) error {
	if len(config) == 0 {
		return nil
	}
	s, err := readSwitches(config)
	if err != nil {
		return err
	}
	if err := s.check(kinds, log); err != nil {
		return err
	}
	for _, k := range kinds {
		for _, f := range k.Faces {
			f.Unserved = !s.on(f)
		}
	}
	return nil
}

// readSwitches reads a runtime configuration. Its errors are those of kube-apiserver.
func readSwitches(config map[string]string) (*apiSwitches, error) {
	if len(config) == 1 && config["api/all"] == "false" {
		return nil, errors.New("invalid runtime-config with only api/all=false")
	}
	s := &apiSwitches{levels: map[string]bool{}, versions: map[schema.GroupVersion]bool{}, resources: map[schema.GroupVersionResource]bool{}}
	for _, key := range slices.Sorted(maps.Keys(config)) {
		if err := s.read(key, config[key]); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// read reads the switch of one key.
func (s *apiSwitches) read(key, value string) error {
	on, err := strconv.ParseBool(cmp.Or(value, "true"))
	if level, ok := strings.CutPrefix(key, "api/"); ok && slices.Contains([]string{"all", "ga", "beta", "alpha"}, level) {
		if err != nil {
			return fmt.Errorf("invalid value %s=%s", key, value)
		}
		s.levels[level] = on
		return nil
	}
	parts := strings.Split(key, "/")
	if key == "v1" || key == "api/v1" {
		parts = []string{"", "v1"}
	}
	if len(parts) < 2 || len(parts) > 3 {
		return fmt.Errorf("runtime-config invalid key %s", key)
	}
	if err != nil {
		return fmt.Errorf("invalid value of %s: %s, err: %w", key, value, err)
	}
	gv := schema.GroupVersion{Group: parts[0], Version: parts[1]}
	if len(parts) == 3 {
		s.resources[gv.WithResource(parts[2])] = on
		return nil
	}
	s.versions[gv] = on
	return nil
}

// check reports versions that Kubernetes does not have, and warns of those that are turned on but not served here.
func (s *apiSwitches) check(kinds []*resource.Kind, log *slog.Logger) error {
	served, groups := map[schema.GroupVersion]bool{}, map[string]bool{}
	for _, k := range kinds {
		for _, f := range k.Faces {
			served[f.GroupVersion()], groups[f.Group] = true, true
		}
	}
	named := maps.Clone(s.versions)
	for gvr, on := range s.resources {
		named[gvr.GroupVersion()] = named[gvr.GroupVersion()] || on
	}
	for gv, on := range named {
		switch {
		case served[gv]:
		case !groups[gv.Group] && !scheme.Scheme.IsGroupRegistered(gv.Group):
			return fmt.Errorf("unknown api groups %s", gv)
		case !scheme.Scheme.IsVersionRegistered(gv):
			return fmt.Errorf("group version %s that has not been registered", gv)
		case on:
			log.Warn("an API that the runtime configuration turns on is not served here", "version", gv.String())
		}
	}
	return nil
}

// on reports whether a face is on.
func (s *apiSwitches) on(f *resource.Face) bool {
	if on, ok := s.resources[f.GroupVersionResource()]; ok {
		return on
	}
	if on, ok := s.versions[f.GroupVersion()]; ok {
		return on
	}
	if on, ok := s.levels[level(f.Version)]; ok {
		return on
	}
	if on, ok := s.levels["all"]; ok {
		return on
	}
	return !f.Optional
}

// level returns the level of stability of a version.
func level(version string) string {
	for _, l := range []string{"alpha", "beta"} {
		if strings.Contains(version, l) {
			return l
		}
	}
	return "ga"
}
