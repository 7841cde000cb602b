package flags

import (
	_ "embed"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// featureGateNames are the names of Kubernetes' feature gates, one a line, including those that can no longer be
// changed.
//
//go:embed featuregates.txt
var featureGateNames string

// featureGates is the value of --feature-gates: [component:]gate=bool, separated by commas. As in Kubernetes, an
// unknown gate is an error. Known ones have no effect.
type featureGates struct{ text []string }

// Set implements pflag.Value.
func (g *featureGates) Set(text string) error {
	for _, word := range strings.Split(text, ",") {
		gate, value, ok := strings.Cut(strings.TrimSpace(word), "=")
		switch {
		case gate == "" && !ok:
			continue
		case !ok:
			return fmt.Errorf("missing bool value for %s", gate)
		}
		if _, err := strconv.ParseBool(strings.TrimSpace(value)); err != nil {
			return fmt.Errorf("invalid value of %s=%s, err: %w", gate, value, err)
		}
		if err := CheckGate(gate); err != nil {
			return err
		}
	}
	g.text = append(g.text, text)
	return nil
}

// CheckGate reports whether [component:]gate is known.
func CheckGate(gate string) error {
	component, name, given := strings.Cut(strings.TrimSpace(gate), ":")
	if !given {
		component, name = "kube", component
	}
	switch {
	case component != "kube":
		return fmt.Errorf("component not registered: %s", component)
	case !slices.Contains(strings.Fields(featureGateNames), name):
		return fmt.Errorf("unrecognized feature gate: %s", name)
	}
	return nil
}

// String implements pflag.Value.
func (g *featureGates) String() string { return strings.Join(g.text, ",") }

// Type implements pflag.Value.
func (g *featureGates) Type() string { return "colonSeparatedMultimapStringString" }
