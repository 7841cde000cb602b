package flags

import (
	"log/slog"
	"strings"

	"github.com/spf13/pflag"

	"github.com/millrace/millrace/internal/features"
)

// Gates is the value of --feature-gates.
type Gates struct {
	Said features.Set
	text []string
}

// Add adds the flag.
func (g *Gates) Add(fl *pflag.FlagSet) {
	fl.Var(g, "feature-gates", "[kube:]gate=bool, with commas between: Kubernetes' feature gates; a warning names those that cannot be changed here")
}

// Warn names the gates that were set otherwise than what the program does, and that it does not follow.
func (g *Gates) Warn(log *slog.Logger, followed ...string) {
	if all := g.Said.NotFollowed(followed...); len(all) > 0 {
		log.Warn("feature gates were given that cannot be changed here", "gates", strings.Join(all, ","))
	}
}

// Set implements pflag.Value.
func (g *Gates) Set(text string) error {
	if g.Said == nil {
		g.Said = features.Set{}
	}
	g.text = append(g.text, text)
	return g.Said.Parse(text)
}

// String implements pflag.Value.
func (g *Gates) String() string { return strings.Join(g.text, ",") }

// Type implements pflag.Value.
func (g *Gates) Type() string { return "colonSeparatedMultimapStringString" }
