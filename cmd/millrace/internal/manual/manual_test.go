package manual

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

func TestEveryCommandThatHelpListsHasAPage(t *testing.T) {
	run := func(*cobra.Command, []string) {}
	root := &cobra.Command{Use: "one", Short: "The first"}
	child := &cobra.Command{Use: "two FILE", Short: "The second", Long: "Reads a\\b.\n.hidden files too.", Example: "  one two x", Run: run}
	child.Flags().StringP("output-file", "o", "-", "where `PLACE` is")
	child.Flags().Bool("quiet", false, "say nothing")
	child.Flags().Bool("secret", false, "")
	_ = child.Flags().MarkHidden("secret")
	root.PersistentFlags().Int("verbosity", 0, "how much is said")
	root.AddCommand(child, &cobra.Command{Use: "three", Hidden: true, Run: run})
	directory := t.TempDir()
	if err := write(root, directory); err != nil {
		t.Fatal(err)
	}
	files, _ := filepath.Glob(filepath.Join(directory, "*"))
	if len(files) != 2 {
		t.Fatalf("%v", files)
	}
	text, err := os.ReadFile(filepath.Join(directory, "one-two.1"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		".TH \"ONE\\-TWO\" 1 ", ".SH NAME\none\\-two \\- The second\n", ".SH SYNOPSIS\n.nf\none two FILE [flags]\n.fi\n", "Reads a\\eb.\n\\&.hidden files too.\n",
		".B \\-o, \\-\\-output\\-file PLACE\nwhere PLACE is (default \\-)\n", ".B \\-\\-quiet\nsay nothing\n", ".SH OPTIONS OF ALL COMMANDS\n.TP\n.B \\-\\-verbosity int\nhow much is said\n",
		".SH SEE ALSO\n.BR one (1)\n",
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("the page lacks %q:\n%s", want, text)
		}
	}
	if strings.Contains(string(text), "secret") {
		t.Error("a hidden flag is listed")
	}
	above, err := os.ReadFile(filepath.Join(directory, "one.1"))
	if err != nil || !strings.Contains(string(above), ".BR one\\-two (1)\n") {
		t.Errorf("%v\n%s", err, above)
	}
}
