package flags

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

func TestHelpListsFlagsInGroupsAndEachOnce(t *testing.T) {
	c := &cobra.Command{Use: "up", Example: "  up now", Run: func(*cobra.Command, []string) {}}
	for _, name := range []string{"audit-log", "audit-policy", "data", "nodes", "other", "secret"} {
		c.Flags().String(name, "", "what "+name+" is")
	}
	_ = c.Flags().MarkHidden("secret")
	Grouped(c, Group{"Flags", []string{"nodes", "data"}, nil}, Group{"Audit", nil, []string{"audit-", "da"}}, Group{"Nothing", nil, []string{"x"}})
	var out strings.Builder
	c.SetOut(&out)
	c.SetErr(&out)
	if err := c.Usage(); err != nil {
		t.Fatal(err)
	}
	text := out.String()
	last := -1
	for _, want := range []string{"Usage:\n  up [flags]\n", "\nExamples:\n  up now\n", "\nFlags:\n", "--data", "--nodes", "\nAudit:\n", "--audit-log", "--audit-policy", "\nOthers:\n", "--other"} {
		at := strings.Index(text, want)
		if at <= last || want[0] == '-' && strings.Count(text, want+" ") != 1 {
			t.Errorf("%q is at %d, after %d:\n%s", want, at, last, text)
		}
		last = at
	}
	if strings.Contains(text, "Nothing") || strings.Contains(text, "secret") {
		t.Errorf("too much:\n%s", text)
	}
}
