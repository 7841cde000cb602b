// Package doctor is `millrace doctor`: whether this machine has what a cluster needs. It changes nothing: it writes one
// file into the data directory, to measure the disk, and removes it.
package doctor

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/millrace/millrace/cmd/millrace/internal/serving"
)

// verdict is what comes of a check.
type verdict string

const (
	fine    verdict = "ok"
	unusual verdict = "note" // something works worse, or a part is not there
	broken  verdict = "wrong"
)

// finding is the result of one check. What is not fine has an advice.
type finding struct {
	verdict      verdict
	what, advice string
}

// machine is what is examined.
type machine struct {
	data, listen string
	now          time.Time
}

// check is one check with its name.
type check struct {
	name string
	run  func(machine) []finding
}

// everywhere are the checks of all systems, in the order in which they are printed.
var everywhere = []check{
	{"address", machine.address},
	{"data directory", machine.dataDirectory},
	{"disk", machine.disk},
	{"certificates", machine.certificates},
}

// Command is `millrace doctor`.
func Command() *cobra.Command {
	m := machine{now: time.Now()}
	c := &cobra.Command{
		Use: "doctor", Args: cobra.NoArgs,
		Short: "Examine this machine: ports, disk, kernel, clock, certificates that end soon",
		Long: "Examine this machine: whether the address is free, how fast the disk is and how much of it is free, whether the clock\n" +
			"is synchronized, what the kernel lacks for real nodes, and which certificates end soon. It fails if something is wrong.",
		RunE: func(c *cobra.Command, _ []string) error {
			if m.data == "" {
				return errors.New(`--data is empty: name a directory, or "memory"`)
			}
			return m.examine(c.OutOrStdout(), append(everywhere, ofSystem...))
		},
	}
	c.Flags().StringVar(&m.data, "data", serving.DefaultData(), "data directory of the cluster")
	c.Flags().StringVar(&m.listen, "listen", "127.0.0.1:6443", "address of the API")
	return c
}

// examine runs checks and prints what they find.
func (m machine) examine(out io.Writer, checks []check) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	wrong := 0
	for _, one := range checks {
		for _, f := range one.run(m) {
			if f.verdict == broken {
				wrong++
			}
			if f.advice != "" {
				f.what += ": " + f.advice
			}
			fmt.Fprintf(w, "%s\t%s\t%s\n", f.verdict, one.name, f.what)
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	switch wrong {
	case 0:
		return nil
	case 1:
		return errors.New("one thing is wrong")
	}
	return fmt.Errorf("%d things are wrong", wrong)
}

// existing returns the data directory or, as long as there is none, the nearest one above it. A file that is in the way
// is found when it is written to.
func (m machine) existing() string {
	path := m.data
	if m.data == "memory" {
		path = os.TempDir()
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return "."
	}
	for {
		if _, err := os.Stat(path); err == nil || !errors.Is(err, fs.ErrNotExist) {
			return path
		}
		above := filepath.Dir(path)
		if above == path {
			return path
		}
		path = above
	}
}
