package serving

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// renewing is a cluster whose certificates have been renewed some number of times. Writing its kubeconfig fails once.
type renewing struct {
	renewals int
	failed   bool
	written  []string
}

func (r *renewing) Kubeconfig() []byte { return fmt.Append(nil, "kubeconfig ", r.renewals) }

func (r *renewing) WriteKubeconfig(string) error {
	if !r.failed {
		r.failed = true
		return errors.New("no space")
	}
	r.written = append(r.written, string(r.Kubeconfig()))
	return nil
}

func TestTheKubeconfigIsWrittenAgainWhenItsCertificateIsRenewed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		c := &renewing{}
		var keeping sync.WaitGroup
		keeping.Go(func() { keepKubeconfig(ctx, c, "kubeconfig", slog.New(slog.DiscardHandler)) })
		for _, wait := range []time.Duration{rewriteEvery, 3 * rewriteEvery, rewriteEvery} {
			time.Sleep(wait + time.Minute)
			synctest.Wait()
			c.renewals++
		}
		cancel()
		keeping.Wait()
		if got := strings.Join(c.written, ", "); got != "kubeconfig 1, kubeconfig 2" {
			t.Errorf("written: %s", got)
		}
	})
}

func TestAnErrorIsOneLine(t *testing.T) {
	for text, want := range map[string]string{
		"one":        "one",
		"one\ntwo\n": "one; two",
		"unknown command \"upp\"\n\nDid you mean this?\n\tup\n": `unknown command "upp"; Did you mean this? up`,
		"these fail:\n  a\n  b":                                 "these fail: a; b",
	} {
		if got := Line(errors.New(text)); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestAClusterThatDoesNotEndIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hanging := make(chan struct{})
		if err := within(time.Minute, func() error { <-hanging; return nil }); err == nil || !strings.Contains(err.Error(), "did not end in order within 1m0s") {
			t.Error(err)
		}
		close(hanging)
		failed := errors.New("no space")
		if err := within(time.Minute, func() error { return failed }); !errors.Is(err, failed) {
			t.Error(err)
		}
	})
}
