// Package flags has what the flags of several programs have in common: the log, TLS, versions, files and ranges, and
// flags of Kubernetes' programs that are accepted and have no effect.
package flags

import (
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/klog/v2"
)

// Log configure logging.
type Log struct {
	level     string
	Format    string
	Verbosity int
}

func (l *Log) Add(c *cobra.Command) {
	c.Flags().StringVar(&l.level, "log-level", "", "debug, info, warn or error (default warn)")
	c.Flags().IntVarP(&l.Verbosity, "v", "v", 0, "Kubernetes' log level: 0 is warn, 1 to 3 info, 4 and more debug")
	c.Flags().StringVar(&l.Format, "logging-format", "text", "text or json")
}

func (l *Log) Logger(w io.Writer) (*slog.Logger, error) {
	level := slog.LevelWarn
	switch {
	case l.Verbosity >= 4:
		level = slog.LevelDebug
	case l.Verbosity >= 1:
		level = slog.LevelInfo
	}
	if l.level != "" {
		if err := level.UnmarshalText([]byte(l.level)); err != nil {
			return nil, fmt.Errorf("--log-level %q is none of debug, info, warn, error", l.level)
		}
	}
	o := &slog.HandlerOptions{Level: level}
	var log *slog.Logger
	switch l.Format {
	case "text":
		log = slog.New(slog.NewTextHandler(w, o))
	case "json":
		log = slog.New(slog.NewJSONHandler(w, o))
	default:
		return nil, fmt.Errorf("--logging-format %q is neither text nor json", l.Format)
	}
	klog.SetSlogLogger(slog.New(libraryLog(log.Handler()))) // Kubernetes' libraries log through klog
	return log, nil
}

// Prefixes parses a flag of address ranges separated by commas.
func Prefixes(flag, text string) ([]netip.Prefix, error) {
	var all []netip.Prefix
	for _, word := range strings.FieldsFunc(text, func(r rune) bool { return r == ',' }) {
		p, err := netip.ParsePrefix(strings.TrimSpace(word))
		if err != nil {
			return nil, fmt.Errorf("--%s: %q is not a range such as 10.244.0.0/16", flag, word)
		}
		all = append(all, p)
	}
	return all, nil
}

// Files checks that the files that flags name can be read.
func Files(byFlag map[string]string) error {
	for flag, path := range byFlag {
		if path == "" {
			continue
		}
		f, err := os.Open(path)
		if err != nil {
			return fmt.Errorf("--%s: %w", flag, err)
		}
		f.Close()
	}
	return nil
}
