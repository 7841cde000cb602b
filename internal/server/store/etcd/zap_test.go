package etcd

import (
	"bytes"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
)

func TestPublicationOfTheMembersNameIsDelayedAndNotLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var said bytes.Buffer
		log := newZap(&bridge{log: slog.New(slog.NewTextHandler(&said, nil))}, func(error) {})
		began := time.Now()
		for range 1000 {
			log.Warn("failed to publish local member to cluster through raft", zap.Error(errors.New("etcdserver: too many requests")))
		}
		if said.Len() > 0 || time.Since(began) < time.Second {
			t.Errorf("a thousand tries take %v, and say %q", time.Since(began), said.String())
		}
		if log.Warn("something else"); said.Len() == 0 {
			t.Error("other warnings are lost")
		}
	})
}
