package flags

import (
	"context"
	"os"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
)

func TestAHangupEndsOnlyWhatHasLostItsTerminal(t *testing.T) {
	for name, is := range map[string]struct{ before, after, ends bool }{
		"a service":              {false, false, false},
		"at a terminal":          {true, true, false},
		"whose terminal is gone": {true, false, true},
	} {
		synctest.Test(t, func(t *testing.T) {
			var there, ended atomic.Bool
			there.Store(is.before)
			ctx, cancel := context.WithCancel(t.Context())
			hangups := make(chan os.Signal)
			go followHangups(ctx, hangups, there.Load, func() { ended.Store(true) })
			synctest.Wait()
			there.Store(is.after)
			hangups <- syscall.SIGHUP
			synctest.Wait()
			if ended.Load() != is.ends {
				t.Errorf("%s: ended is %v", name, ended.Load())
			}
			cancel()
		})
	}
}
