// Package features has Kubernetes' feature gates: their names, and whether each is on by default. Almost all of them
// turn on and off what this program has always, or has not: such a gate is accepted with any value, and those whose value
// says something else than what the program does are named by NotFollowed, so that somebody can be warned. Gates that
// Kubernetes does not know, or that it does not let anybody change, are errors, as there.
package features

import (
	_ "embed"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// table has the gates of Kubernetes 1.37, one a line, as that tells of itself in the metric kubernetes_feature_enabled:
// the name, the stage, whether it is on, and whether it cannot be changed.
//
//go:embed gates.txt
var table string

// Gate is one gate.
type Gate struct {
	Name string
	// Stage is alpha, beta, ga or deprecated.
	Stage string
	// On says that it is on by default, and Locked that this cannot be changed.
	On, Locked bool
}

// The gates that are followed.
const (
	// Identity has each server show in a lease who it is.
	Identity = "APIServerIdentity"
	// FlagsPage and StatusPage are the pages /flagz and /statusz.
	FlagsPage  = "ComponentFlagz"
	StatusPage = "ComponentStatusz"
)

// The gates that set all others of a stage.
const (
	allAlpha = "AllAlpha"
	allBeta  = "AllBeta"
)

// component is the only one whose gates are known. Its name may stand before that of a gate.
const component = "kube"

// known are the gates by their names.
var known = sync.OnceValue(func() map[string]Gate {
	all := map[string]Gate{}
	for line := range strings.Lines(table) {
		words := strings.Fields(line)
		all[words[0]] = Gate{Name: words[0], Stage: words[1], On: words[2] == "on", Locked: len(words) > 3}
	}
	return all
})

// All returns all gates, in the order of their names.
func All() []Gate {
	return slices.SortedFunc(maps.Values(known()), func(a, b Gate) int { return strings.Compare(a.Name, b.Name) })
}

// Set is what was said of gates. The zero Set leaves all as they are by default.
type Set map[string]bool

// Put sets [component:]gate.
func (s Set) Put(name string, on bool) error {
	of, name, given := strings.Cut(strings.TrimSpace(name), ":")
	if !given {
		of, name = component, of
	}
	g, is := known()[name]
	switch {
	case of != component:
		return fmt.Errorf("component not registered: %s", of)
	case !is:
		return fmt.Errorf("unrecognized feature gate: %s", name)
	case g.Locked && on != g.On:
		return fmt.Errorf("cannot set feature gate %s to %v, feature is locked to %v", name, on, g.On)
	}
	s[name] = on
	return nil
}

// Parse sets [component:]gate=bool, separated by commas.
func (s Set) Parse(text string) error {
	for word := range strings.SplitSeq(text, ",") {
		gate, value, ok := strings.Cut(strings.TrimSpace(word), "=")
		switch {
		case gate == "" && !ok:
			continue
		case !ok:
			return fmt.Errorf("missing bool value for %s", gate)
		}
		on, err := strconv.ParseBool(strings.TrimSpace(value))
		if err != nil {
			return fmt.Errorf("invalid value of %s=%s, err: %w", gate, value, err)
		}
		if err := s.Put(gate, on); err != nil {
			return err
		}
	}
	return nil
}

// Enabled reports whether a gate is on.
func (s Set) Enabled(name string) bool {
	g := known()[name]
	return s.enabled(&g)
}

func (s Set) enabled(g *Gate) bool {
	if on, said := s[g.Name]; said {
		return on
	}
	of := map[string]string{"alpha": allAlpha, "beta": allBeta}[g.Stage]
	if on, said := s[of]; said && !g.Locked && g.Name != of {
		return on
	}
	return g.On
}

// NotFollowed returns the gates that were set otherwise than they are by default, and that are not among those that the
// caller follows: gate=bool.
func (s Set) NotFollowed(followed ...string) (all []string) {
	for _, name := range slices.Sorted(maps.Keys(s)) {
		if on := s[name]; on != known()[name].On && !slices.Contains(followed, name) {
			all = append(all, fmt.Sprintf("%s=%v", name, on))
		}
	}
	return all
}
