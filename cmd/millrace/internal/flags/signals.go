package flags

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
)

// UntilSignal runs a command until a signal arrives: the first one stops it in order, the second one kills it. SIGHUP
// stops it only if its terminal is gone. Otherwise it asks for what happens by itself: files of certificates, keys and
// access are read again within ten seconds after they change. The built-in kubectl handles signals itself.
func UntilSignal(run func(context.Context, *cobra.Command) error) func(*cobra.Command, []string) error {
	return func(c *cobra.Command, _ []string) error {
		ctx, end := context.WithCancel(c.Context())
		defer end()
		ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
		defer stop()
		defer context.AfterFunc(ctx, stop)()
		hangups := make(chan os.Signal, 1)
		if !signal.Ignored(syscall.SIGHUP) { // nohup
			signal.Notify(hangups, syscall.SIGHUP)
			defer signal.Stop(hangups)
		}
		followed := make(chan struct{})
		defer func() { end(); <-followed }()
		go func() {
			defer close(followed)
			followHangups(ctx, hangups, terminal, end)
		}()
		return run(ctx, c)
	}
}

// followHangups calls end when a terminal that was there has gone.
func followHangups(ctx context.Context, hangups <-chan os.Signal, terminal func() bool, end func()) {
	had := terminal()
	for {
		select {
		case <-ctx.Done():
			return
		case <-hangups:
			if had && !terminal() {
				end()
				return
			}
		}
	}
}

// terminal reports whether the process has a terminal.
func terminal() bool {
	f, err := os.Open("/dev/tty")
	if err != nil {
		return false
	}
	return f.Close() == nil
}
