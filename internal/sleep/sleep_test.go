package sleep_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/internal/sleep"
)

func TestASleepEndsWithItsTimeOrItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		if !sleep.For(t.Context(), time.Minute) || time.Since(began) != time.Minute {
			t.Errorf("a sleep of a minute took %s", time.Since(began))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began = time.Now()
		if sleep.For(ctx, time.Minute) || time.Since(began) != time.Second {
			t.Errorf("a sleep whose context ends after a second took %s", time.Since(began))
		}
	})
}
